{#-
    One row that says what became of every event behind a history: `read = applied + duplicate + superseded + quarantined`. Read,
    duplicate and quarantined are counted in the raw events, applied in what the history remembers, so that the sum can be wrong.
    Records that are no change of a row (heartbeats, messages, borders of transactions, DDL) are counted beside it. A table
    without a history, or with a compacted one, remembers what its rows need; the other events are superseded.
-#}
{% macro audit(history, current) -%}
    {{ return(adapter.dispatch("audit", "cdc")(history, current)) }}
{%- endmacro %}


{% macro default__audit(history, current) -%}
    {%- if not execute -%}
        {{ return("select 1 as events_read") }}
    {%- endif -%}
    {%- set d = cdc._upstream_declaration(cdc._node_of(history)) -%}
    {%- set beside = cdc._tombstones_of(history) -%}
    {%- set tombstones = d.history and load_relation(beside) -%}
    {#- Compiled for the docs, before the first build, there is no table to ask. -#}
    {%- set forgets = not d.history or (load_relation(history) and "cdc.compacted" in cdc._table_properties(history)) -%}
    {#- Ends of what nobody saw are noted by the first run that finds some. Until then there is nothing to compare them with. -#}
    {%- set kept_ops = "'I', 'U', 'D', 'T'" if not d.history else "'I', 'U', 'D'" if tombstones else "'I', 'U'" -%}
with {{ cdc._decoded_events(d, d.relation) }},

source_counts as (
    select
        count(*) as events_read,
        count(distinct if(_reason is null, _event_id, null)) as events_distinct,
        count(distinct if(_reason is null and _op in ('D', 'T'), _event_id, null)) as ends_distinct,
        count_if(_reason is not null) as events_quarantined
    from identified_events
),

control_counts as (
    select count(*) as events_left_out
    from ({{ cdc._left_out_events(d) }}) as left_out_events
),

remembered_events as (
    select explode(coalesce(filter(_events, event -> event._op in ({{ kept_ops }}))._event_id, array(_event_id))) as _event_id
    from {{ history if d.history else current }}
    {%- if tombstones %}
    union all
    select _event_id
    from {{ beside }}
    where _op in ('D', 'T')
    {%- endif %}
),

applied_counts as (
    select count(distinct _event_id) as events_remembered
    from remembered_events
),

row_counts as (
    select
        (select count(*) from {{ current }}{{ " where _cdc_deleted_at is null" if not d.history }}) as rows_now,
        {{ "(select count(*) from " ~ history ~ ")" if d.history else "cast(null as bigint)" }} as versions
)

select
    {{ cdc._literal(d.table.split('.')[1]) }} as table_name,
    events_read,
    events_remembered{{ " + ends_distinct" if "'D'" not in kept_ops }} as events_applied,
    events_read - events_distinct - events_quarantined as events_duplicate,
    {{ "events_distinct - events_remembered" if forgets else "cast(0 as bigint)" }} as events_superseded,
    events_quarantined,
    events_left_out,
    rows_now,
    versions
from source_counts
cross join control_counts
cross join applied_counts
cross join row_counts
{%- endmacro %}
