{#-
    The table as it was: the rows of a history at a time, or at a position of its source, with the columns of its final table. One
    plain SELECT.
      time       a date or time as text (`2026-11-21 08:00:00`), a datetime, or an SQL expression
      sequence   a number, an SQL expression, or the parts of the position: a list, or a mapping where they have names
-#}
{% macro as_of(history, time=none, sequence=none) -%}
    {{ return(adapter.dispatch("as_of", "cdc")(history, time, sequence)) }}
{%- endmacro %}


{% macro default__as_of(history, time, sequence) -%}
    {%- if not execute -%}
        {{ return("select * from " ~ history) }}
    {%- endif -%}
    {%- set node = cdc._node_of(history) -%}
    {%- do cdc._refuse_as_of(model, history, node, time, sequence) -%}
    {%- set d = cdc._upstream_declaration(node) -%}
    {%- set keys = ["_entity_id"] if d and d.key_changes else cdc._as_list(node.config.unique_key) -%}
    {%- if time is not none -%}
        {%- set moment = cdc._time_literal(time) -%}
        {%- set begun = "dbt_valid_from <= " ~ moment -%}
        {%- set lasts = "(dbt_valid_to is null or dbt_valid_to > " ~ moment ~ ")" -%}
    {%- else -%}
        {%- set begun = cdc._compared_position("_seq", "<=", sequence) -%}
        {%- set lasts = "(_seq_end is null or " ~ cdc._compared_position("_seq_end", ">", sequence) ~ ")" -%}
    {%- endif -%}
with valid_versions as (
    select *
    from {{ history }}
    where
        {{ begun }}
        and {{ lasts }}
),

{#- Clocks can run backwards, positions cannot: of versions that overlap in time the last one holds. #}
last_versions as (
    select
        *,
        row_number() over (partition by {{ cdc._column_list(keys) }} order by _seq desc) as _cdc_latest
    from valid_versions
)

select
    {{ cdc._current_columns(node, ["_cdc_latest"]) }}
from last_versions
where _cdc_latest = 1
{%- endmacro %}


{% macro _refuse_as_of(reader, history, node, time, sequence) -%}
    {%- set problem = none -%}
    {%- if node is none or cdc._kind_of(node) != "history" -%}
        {%- set problem = "asks what " ~ (node.name if node else history) ~ " was, which is not a history. Name a snapshot with"
            ~ " `strategy: cdc.scd2`: `cdc.as_of(ref('<table>_history'), ..)`." -%}
    {%- elif (time is none) == (sequence is none) -%}
        {%- set problem = "asks what " ~ node.name ~ " was and names "
            ~ ("no point in time" if time is none else "two points in time") ~ ". Give `cdc.as_of` either `time` or"
            ~ " `sequence`." -%}
    {%- elif time is not none and cdc._upstream_declaration(node) and not cdc._has_event_time(cdc._upstream_declaration(node)) -%}
        {%- set problem = "asks what " ~ node.name ~ " was at a time, and " ~ cdc._upstream_declaration(node).table
            ~ " declares no event time. Give `cdc.as_of` a `sequence`, or declare `event_time`." -%}
    {%- endif -%}
    {%- if problem -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ reader.name ~ " " ~ problem) -%}
    {%- endif -%}
{%- endmacro %}


{#- A time as SQL. -#}
{% macro _time_literal(time) -%}
    {%- if time is not string -%}
        {{ return("timestamp " ~ cdc._literal(time.isoformat())) }}
    {%- elif modules.re.match("\\d{4}-\\d{2}-\\d{2}", time | trim) -%}
        {{ return("timestamp " ~ cdc._literal(time | trim)) }}
    {%- endif -%}
    {{ return("(" ~ time ~ ")") }}
{%- endmacro %}


{#-
    The comparison of a column with a position. A sequence of several parts is a struct: its fields are compared one after the
    other, since whole structs compare only where all their types are the same.
-#}
{% macro _compared_position(column, operator, sequence) -%}
    {%- if sequence is string or sequence is number -%}
        {{ return(column ~ " " ~ operator ~ " (" ~ sequence ~ ")") }}
    {%- endif -%}
    {%- set parts = {} -%}
    {%- if sequence is mapping -%}
        {%- do parts.update(sequence) -%}
    {%- else -%}
        {%- for part in sequence -%}{%- do parts.update({"part_" ~ loop.index: part}) -%}{%- endfor -%}
    {%- endif -%}
    {%- set conditions = [] -%}
    {%- set same = [] -%}
    {%- for name, part in parts.items() -%}
        {%- set field = column ~ "." ~ cdc._quoted(name) -%}
        {%- set compared = field ~ " " ~ (operator if loop.last else operator[0]) ~ " (" ~ part ~ ")" -%}
        {%- do conditions.append("(" ~ ((same + [compared]) | join(" and ")) ~ ")") -%}
        {%- do same.append(field ~ " = (" ~ part ~ ")") -%}
    {%- endfor -%}
    {{ return("(" ~ (conditions | join(" or ")) ~ ")") }}
{%- endmacro %}
