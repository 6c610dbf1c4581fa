{#- The keys to erase: those that are named, and those on the list that an unfinished erasure left, wherever they have a row. -#}
{% macro _erased_keys(subject, where, keys, unfinished, by_list) -%}
    {%- set d = subject.declaration -%}
    {%- set columns = cdc._column_list(d.key_columns) -%}
    {%- set found = [] -%}
    {%- for key in keys or [] -%}
        {%- set values = [] -%}
        {%- for column, value in cdc._key_literals(d, key).items() -%}
            {%- do values.append(value ~ " as " ~ cdc._quoted(column)) -%}
        {%- endfor -%}
        {%- do found.append("select " ~ cdc._column_list(d.key_columns) ~ " from (select " ~ (values | join(", "))
            ~ cdc._mask_row(d) ~ ") as given_key") -%}
    {%- endfor -%}
    {%- if where is not none -%}
        {%- do found.append("select " ~ columns ~ " from " ~ cdc._named_rows(subject) ~ cdc._meeting(where)) -%}
    {%- endif -%}
    {%- if cdc._erasure_list() and (unfinished or by_list) -%}
        {%- set listed = "select key_hash from " ~ cdc._erasure_list() ~ " where table_name = " ~ cdc._literal(d.table)
            ~ " and " ~ ("counts_from is null" if by_list else "not is_done") -%}
        {%- for table in subject.tables -%}
            {%- do found.append("select " ~ columns ~ " from " ~ table.relation ~ " where " ~ cdc._row_key_hash(d) ~ " in ("
                ~ listed ~ ")") -%}
        {%- endfor -%}
        {%- set source = cdc._named_rows(dict(subject, named={"relation": none})) -%}
        {%- do found.append("select " ~ columns ~ " from " ~ source ~ " where " ~ cdc._row_key_hash(d) ~ " in (" ~ listed ~ ")") -%}
    {%- endif -%}
    {{ return("select distinct " ~ columns ~ " from (" ~ (found | join(" union all ")
        or "select " ~ columns ~ " from " ~ cdc._named_rows(subject) ~ " where false") ~ ") as found_keys") }}
{%- endmacro %}


{#-
    The columns of a key as an operation names it, in the clear, each with the value that the tables hold. Those of masked columns
    are read from `_mask_row`.
-#}
{% macro _key_literals(d, key) -%}
    {%- set values = {} -%}
    {%- for column in d.columns if column.name in d.key_columns -%}
        {%- set value = "cast(" ~ cdc._literal(key[column.name] if key is mapping else key) ~ " as " ~ column.type ~ ")" -%}
        {%- do values.update({column.name: cdc._masked(value, column.type) if column.mask else value}) -%}
    {%- endfor -%}
    {{ return(values) }}
{%- endmacro %}


{#- A FROM clause of the one row that masks keys; empty where no key is masked. -#}
{% macro _mask_row(d) -%}
    {%- set masked = d.columns | selectattr("name", "in", d.key_columns) | selectattr("mask") | list -%}
    {{ return(" from (" ~ cdc._mask_keys(d) ~ ") as mask_keys" if masked else "") }}
{%- endmacro %}


{#- The rows that a condition is asked of, as a relation: those of a table, or the good events of the source table. -#}
{% macro _named_rows(subject) -%}
    {%- if subject.named.relation is not none -%}
        {{ return(subject.named.relation | string) }}
    {%- endif -%}
    {%- set d = subject.declaration -%}
    {%- set names = d.columns | map(attribute="name") | list -%}
    {%- if d.key_changes -%}
        {{ return("(select " ~ cdc._column_list(names) ~ ", _op, _seq, _entity_id from " ~ subject.resolver
            ~ " where _op <> 'T') as named_events") }}
    {%- endif -%}
    {{ return("(with " ~ cdc._decoded_events(dict(d, sees_erased=true), d.relation) ~ " select "
        ~ ("_event_id as _row_id, " if d.keyless else "") ~ cdc._column_list(names)
        ~ ", _op, _seq from identified_events where _op <> 'T' and _reason is null) as named_events") }}
{%- endmacro %}


{#- A raw row as one hash, for raw tables have no key. -#}
{% macro _raw_row_hash(d, alias=none) -%}
    {{ return("sha2(to_json(struct(" ~ cdc._column_list(cdc._column_types("select * from " ~ d.relation).keys() | list, alias)
        ~ ")), 256)") }}
{%- endmacro %}


{#- The raw rows of the erased keys, those that left such a key among them. -#}
{% macro _erased_raw_rows(d, erased) -%}
    {%- set hashes = cdc._event_key_hashes(d) -%}
    {%- set d = dict(d, origin=cdc._raw_row_hash(d)) -%}
    {%- if d.key_changes -%}
with {{ cdc._decoded_events(dict(d, sees_erased=false, erased_by=erased.ranges.relation), d.relation) }}

select
    _origin as __cdc_raw_row,
    min(_arrived) as _arrived
from judged_events
where __cdc_is_erased
group by _origin
    {%- else -%}
with {{ cdc._decoded_events(dict(d, sees_erased=true), d.relation) }},

keyed_events as (
    select
        _origin,
        _arrived,
        explode(array_distinct(array({{ hashes.own }}, {{ hashes.old }}))) as __cdc_key_hash
    from identified_events
    where not _op <=> 'T'
)

select
    _origin as __cdc_raw_row,
    min(_arrived) as _arrived
from keyed_events
where __cdc_key_hash in (select {{ cdc._row_key_hash(d) }} from {{ erased.relation }})
group by _origin
    {%- endif -%}
{%- endmacro %}


{#-
    The texts that only rows of the erased keys have: no file may hold them afterwards. Short ones, and those that occur in rows
    of other keys, tell nothing. Statistics keep the beginnings of longer ones.
      whole        the texts
      beginnings   what statistics may hold of them
-#}
{% macro _values_of_keys(subject) -%}
    {%- set d = subject.declaration -%}
    {%- set whole, beginnings = [], [] -%}
    {%- set shortened = ["__cdc_text"] -%}
    {%- for length in adapter.shortened_lengths(subject.tables | map(attribute="relation") | map("string") | list) -%}
        {%- do shortened.append("left(__cdc_text, " ~ length ~ ")") -%}
    {%- endfor -%}
    {%- for table in subject.tables if table.role == ("keys" if d.key_changes else "history" if d.history else "final") -%}
        {%- set texts = [] -%}
        {%- for name, type in cdc._column_types(table.relation).items() if type == "string" and not name.startswith("dbt_") -%}
            {%- do texts.append("held." ~ cdc._quoted(name)) -%}
        {%- endfor -%}
        {%- if texts -%}
            {%- set found -%}
with held_texts as (
    select
        explode(array({{ texts | join(", ") }})) as __cdc_text,
        erased.__cdc_is_erased is not null as __cdc_is_erased
    from {{ table.relation }} as held
    left join (select *, true as __cdc_is_erased from {{ table.erased.relation }}) as erased on {{ cdc._same(table.key_columns, "held",
        "erased") }}
),

parted_texts as (
    select
        __cdc_text as __cdc_whole,
        explode(array({{ shortened | join(", ") }})) as __cdc_text
    from held_texts
    where __cdc_is_erased
),

erased_texts as (
    select
        __cdc_text,
        bool_or(__cdc_text = __cdc_whole) as __cdc_is_whole
    from parted_texts
    where length(__cdc_text) >= 4
    group by __cdc_text
),

shared_texts as (
    select distinct erased_texts.__cdc_text
    from erased_texts
    inner join held_texts on not held_texts.__cdc_is_erased and contains(held_texts.__cdc_text, erased_texts.__cdc_text)
)

select
    __cdc_text,
    __cdc_is_whole
from erased_texts
left anti join shared_texts using (__cdc_text)
            {%- endset -%}
            {%- for row in run_query(found).rows -%}{%- do (whole if row[1] else beginnings).append(row[0]) -%}{%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {#- The files hold the letters as they are. -#}
    {{ return({
        "whole": whole | unique(case_sensitive=true) | list, "beginnings": beginnings | unique(case_sensitive=true) | list,
    }) }}
{%- endmacro %}
