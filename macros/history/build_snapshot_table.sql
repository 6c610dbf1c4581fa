{#- dbt's hook for the first build of a snapshot: all events folded into versions. -#}
{% macro spark__build_snapshot_table(strategy, sql) -%}
    {%- if config.get("strategy") != "cdc.scd2" -%}
        {{ return(dbt.default__build_snapshot_table(strategy, sql)) }}
    {%- endif -%}
    {%- set t = strategy -%}
with new_events as (
    {{ cdc._new_events(t, sql, until=t.read_to) | indent(4) }}
),

events as (
    select * from new_events
    where _op <> 'T'
),

truncates as (
    select distinct
        _seq,
        {% if t.time == "_ts" %}_ts,{% endif %}
        _event_id
    from new_events
    where _op = 'T'
),

{{ cdc._versions(t) }}

select * from versions
where dbt_scd_id is not null
{%- endmacro %}
