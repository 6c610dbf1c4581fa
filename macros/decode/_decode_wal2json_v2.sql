{#-
    wal2json, format-version 2: one JSON object a change. Values are read as VARIANT, which keeps numerics exact where a
    string field would pass them through a double. https://github.com/eulerto/wal2json

    The order is (commit time, lsn). The lsn alone misleads: an INSERT is logged before it waits for the transaction that
    deletes the old row of its key, so the delete can carry the higher lsn; it always commits first.
-#}
{% macro _decode_wal2json_v2(d) -%}
    {%- set schema = "action string, timestamp string, lsn string, columns array<struct<name: string, value: variant>>, "
        ~ "identity array<struct<name: string, value: variant>>, _corrupt_record string" -%}
select *
from raw_events
lateral view outer inline(transform(
    array(from_json(_payload, '{{ schema }}', map('columnNameOfCorruptRecord', '_corrupt_record'))),
    line -> struct(
        case
            when line.action in ('I', 'U', 'D', 'T') then line.action
            when line.action in ('B', 'C', 'M') then 'M'
        end,
        {{ cdc._image_of("line.columns") }},
        {{ cdc._image_of("line.identity") }},
        {{ cdc._sequence(d, cdc._commit_position("line.timestamp", "line.lsn")) }},
        {{ d.event_time or "try_cast(line.timestamp as timestamp)" }},
        case
            when line._corrupt_record is not null or line is null then 'unreadable payload'
            when line.action is null then 'no operation'
            when line.action not in ('I', 'U', 'D', 'T', 'B', 'C', 'M') then concat('unknown operation ', line.action)
            when line.action in ('I', 'U', 'D') and not {{ cdc._names_are_unique("line.columns") }}
                then 'a column is named twice'
            when line.action in ('U', 'D') and not {{ cdc._names_are_unique("line.identity") }}
                then 'a key column is named twice'
        end
    )
)) change as _cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem
{%- endmacro %}


{#- NULL unless both are there: the slot needs include-timestamp and include-lsn. -#}
{% macro _commit_position(time, lsn) -%}
    {%- set committed = "try_cast(" ~ time ~ " as timestamp)" -%}
    {{ return(
        "case when " ~ committed ~ " is not null and " ~ cdc._lsn(lsn) ~ " is not null then struct(" ~ committed
        ~ " as committed_at, " ~ cdc._lsn(lsn) ~ " as lsn) end"
    ) }}
{%- endmacro %}


{#- A log sequence number, two hexadecimal halves, as a number: as text 0/9 would come after 0/10. -#}
{% macro _lsn(text) -%}
    {{ return(
        "try_cast(conv(split_part(" ~ text ~ ", '/', 1), 16, 10) as bigint) * 4294967296"
        ~ " + try_cast(conv(split_part(" ~ text ~ ", '/', 2), 16, 10) as bigint)"
    ) }}
{%- endmacro %}


{% macro _names_are_unique(pairs) -%}
    {{ return("coalesce(size(array_distinct(array_compact(transform(" ~ pairs ~ ", c -> c.name)))) = size(" ~ pairs ~ "), true)") }}
{%- endmacro %}


{#- An array of (name, value) as a map. Spark refuses a map that holds a name twice or a null one, and with it the whole run. -#}
{% macro _image_of(pairs) -%}
    {{ return(
        "case when " ~ cdc._names_are_unique(pairs) ~ " then map_from_entries(transform(" ~ pairs
        ~ ", c -> struct(c.name, c.value))) end"
    ) }}
{%- endmacro %}


{#- The declared sequence, or the format's own. A list orders by its parts in turn and is null where one part is. -#}
{% macro _sequence(d, own=none) -%}
    {%- if not d.sequence_by -%}
        {{ return(own) }}
    {%- elif d.sequence_by | length == 1 -%}
        {{ return(d.sequence_by[0]) }}
    {%- endif -%}
    {%- set missing = [] -%}
    {%- set parts = [] -%}
    {%- for part in d.sequence_by -%}
        {%- do missing.append("(" ~ part ~ ") is null") -%}
        {%- do parts.append("(" ~ part ~ ") as part_" ~ loop.index) -%}
    {%- endfor -%}
    {{ return("case when " ~ (missing | join(" or ")) ~ " then null else struct(" ~ (parts | join(", ")) ~ ") end") }}
{%- endmacro %}
