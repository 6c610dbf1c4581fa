{#-
    Where two tables differ, cheaply: rows fall into 256 buckets by their key, and of each bucket only the count and a checksum of
    all values are compared. A query of the buckets that differ, `_bucket`; the rows of the others are equal.
-#}
{% macro _differing_buckets(left, right, keys, columns) -%}
with left_buckets as (
    {{ cdc._bucket_checksums(left, keys, columns) | indent(4) }}
),

right_buckets as (
    {{ cdc._bucket_checksums(right, keys, columns) | indent(4) }}
)

select coalesce(left_buckets._bucket, right_buckets._bucket) as _bucket
from left_buckets
full outer join right_buckets on left_buckets._bucket = right_buckets._bucket
where
    not (
        struct(left_buckets._rows, left_buckets._sum, left_buckets._xor)
        <=> struct(right_buckets._rows, right_buckets._sum, right_buckets._xor)
    )
{%- endmacro %}


{#- xxhash64 passes over NULLs, so that (NULL, 1) and (1, NULL) would be one: each value goes with whether it is there. -#}
{% macro _bucket_checksums(relation, keys, columns) -%}
    {%- set values = [] -%}
    {%- for column in columns -%}
        {%- do values.append(cdc._quoted(column) ~ " is null, " ~ cdc._quoted(column)) -%}
    {%- endfor -%}
select
    {{ cdc._bucket_of(keys) }} as _bucket,
    count(*) as _rows,
    sum(cast(xxhash64({{ values | join(", ") }}) as decimal(20, 0))) as _sum,
    bit_xor(xxhash64({{ values | join(", ") }})) as _xor
from {{ relation }}
group by {{ cdc._bucket_of(keys) }}
{%- endmacro %}


{#- By the key as text: the two tables may hold it in different types. -#}
{% macro _bucket_of(keys) -%}
    {%- set texts = [] -%}
    {%- for key in keys -%}
        {%- do texts.append("cast(" ~ cdc._quoted(key) ~ " as string)") -%}
    {%- endfor -%}
    {{ return("pmod(xxhash64(" ~ (texts | join(", ")) ~ "), 256)") }}
{%- endmacro %}
