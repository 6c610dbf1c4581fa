{#-
    dbt's hook for what a snapshot run changes, computed in steps that are written as plain Parquet beside the table's
    files: the new events, the versions known of their keys, and the versions that change. As one statement decoding and table would
    be planned, and read, wherever they are named; a cached view is planned anew for each reader, too. dbt itself only asks the view
    for its columns.
-#}
{% macro spark__snapshot_staging_table(strategy, source_sql, target_relation) -%}
    {%- if config.get("strategy") != "cdc.scd2" -%}
        {{ return(dbt.default__snapshot_staging_table(strategy, source_sql, target_relation)) }}
    {%- endif -%}
    {%- set t = strategy -%}
    {%- if not t.nothing_new -%}
        {%- do cdc._write_step(t.steps.events, cdc._new_events(t, source_sql, t.read_from, t.read_to)) -%}
        {%- do cdc._count_events(t) -%}
        {%- do cdc._fold(t) -%}
    {%- endif -%}
    {%- set shape = ["cast(null as string) as dbt_change_type"] -%}
    {%- for column in cdc._history_columns(t) -%}
        {%- do shape.append("cast(null as " ~ t.types.get(column, "string") ~ ") as " ~ cdc._quoted(column)) -%}
    {%- endfor -%}
    {{ return("select " ~ (shape | join(", ")) ~ " where false") }}
{%- endmacro %}


{#-
    Where a run keeps its steps: folders of its own below the table's, and views of them in this session. Reading them asks neither
    metastore nor Delta log, and Delta's VACUUM removes them like any file that the table does not own.
-#}
{% macro _steps(location) -%}
    {%- set steps = {} -%}
    {%- set folder = location ~ "/cdc_steps/" ~ invocation_id ~ "/" -%}
    {%- for step in ["events", "known", "changes", "effective", "overwritten"] -%}
        {%- do steps.update({step: {"path": cdc._literal(folder ~ step), "view": "cdc_step_" ~ step}}) -%}
    {%- endfor -%}
    {{ return(steps) }}
{%- endmacro %}


{% macro _write_step(step, sql) -%}
    {%- call statement("write_step") -%}
        insert overwrite directory {{ step.path }} using parquet {{ sql }}
    {%- endcall -%}
    {%- do run_query("create or replace temporary view " ~ step.view ~ " using parquet options (path " ~ step.path ~ ")") -%}
{%- endmacro %}


{#- From the new events to the versions that change, by way of those that are known of their keys. -#}
{% macro _fold(t) -%}
    {%- if not t.rebuild -%}
        {%- do cdc._plan_rows(t, scans_table=true) -%}
        {%- do cdc._write_step(t.steps.known, cdc._known_versions(t)) -%}
    {%- endif -%}
    {%- do cdc._plan_rows(t, scans_table=t.rebuild) -%}
    {%- do cdc._write_step(t.steps.changes, cdc._changed_versions(t)) -%}
{%- endmacro %}


{#- The versions that a run may change: those of its keys, and those that one of its truncates falls into. -#}
{% macro _known_versions(t) -%}
with touched_keys as (
    select {{ cdc._column_list(t.key_columns) }}
    from {{ t.steps.events.view }}
    where _op <> 'T'
    {%- if t.follows %}
    union
    select explode(_former_entity_ids)
    from {{ t.steps.events.view }}
    {%- endif %}
    {%- if t.truncates %}
    union
    select {{ cdc._column_list(t.key_columns, "history") }}
    from {{ t.target }} as history
    inner join {{ t.steps.events.view }} as new_truncates
        on
            new_truncates._op = 'T'
            and history._seq <= new_truncates._seq
            and (history._seq_end is null or new_truncates._seq <= history._seq_end)
    {%- endif %}
)

select {{ cdc._stored_columns(t, "history") }}
from {{ t.target }} as history
left semi join touched_keys on {{ cdc._same(t.key_columns, "history", "touched_keys") }}
where {{ cdc._is_within(t.bounds, "history") }}
{%- endmacro %}


{% macro _stored_columns(t, alias=none) -%}
    {%- set others = cdc._history_columns(t) | reject("equalto", "_events") -%}
    {{ return(cdc._column_list(others, alias) ~ ", " ~ cdc._kept_events(t, alias)) }}
{%- endmacro %}


{#-
    The touched keys unfolded into the events that made them, joined by the new ones and folded again: only versions that came
    out different are changes. A tombstone row carries the ends of a key without versions, or a truncate. Where rows are followed
    through their keys, the resolver's table holds all events, and they are read there: some may have changed their row.
-#}
{% macro _changed_versions(t) -%}
    {%- set keys = cdc._column_list(t.key_columns) -%}
    {%- set times = "_ts, " if t.time == "_ts" else "" -%}
    {%- set untracked = cdc._untracked(t) -%}
    {%- set columns = cdc._history_columns(t) -%}
with known_versions as (
    select {{ cdc._stored_columns(t) if t.rebuild else cdc._column_list(columns) }}
    from {{ t.target if t.rebuild else t.steps.known.view }}
),

truncates as (
    select
        _seq,
        {{ times }}_event_id
    from {{ t.steps.events.view }}
    where _op = 'T'
    {%- if t.has_tombstones %}
    union
    select
        _seq,
        {{ times }}_event_id
    from {{ t.tombstones }}
    where _op = 'T'
    {%- endif %}
),

new_events as (
    {%- if t.follows %}
    with touched_entities as (
        select _entity_id
        from {{ t.steps.events.view }}
        union
        select explode(_former_entity_ids)
        from {{ t.steps.events.view }}
        union
        select _entity_id
        from known_versions
    )

    select
        events.* except (_former_entity_ids, _resolved),
        _resolved > {{ t.read_from if t.read_from is not none else 0 }} and size(_former_entity_ids) = 0 as _is_new
    from ({{ cdc._new_events(t, t.events_sql, until=t.read_to) }}) as events
    left semi join touched_entities on events._entity_id = touched_entities._entity_id
    where _op <> 'T'
    {%- else %}
    select
        *,
        true as _is_new
    from {{ t.steps.events.view }}
    where _op <> 'T'
    {%- endif %}
),

{%- if not (t.rebuild or t.follows) %}

unfolded_versions as (
    select
        known.*,
        explode(_events) as _event
    from known_versions as known
),

known_events as (
    select
        {{ keys }},
        {%- for column in t.value_columns %}
        {{ "_event._image." if column in untracked }}{{ cdc._quoted(column) }},
        {%- endfor %}
        _event._op,
        _event._seq,
        {{ "_event._ts," if t.time == "_ts" }}
        _event._event_id,
        _event._unset,
        false as _is_new
    from unfolded_versions
    where _event._op <> 'T'
),
{%- endif %}

{%- if t.has_tombstones and not (t.rebuild or t.follows) %}

known_tombstones as (
    select
        {{ cdc._column_list(t.key_columns, "tombstones") }},
        {%- for column in t.value_columns %}
        cast(null as {{ t.types[column] }}) as {{ cdc._quoted(column) }},
        {%- endfor %}
        tombstones._op,
        tombstones._seq,
        {{ "tombstones._ts," if t.time == "_ts" }}
        tombstones._event_id,
        cast(array() as array<string>) as _unset,
        false as _is_new
    from {{ t.tombstones }} as tombstones
    left semi join new_events on {{ cdc._same(t.key_columns, "tombstones", "new_events") }}
    where tombstones._op <> 'T'
),
{%- endif %}

events as (
    select * from new_events
    {%- if not (t.rebuild or t.follows) %}
    union all
    select * from known_events
    {%- endif %}
    {%- if t.has_tombstones and not (t.rebuild or t.follows) %}
    union all
    select * from known_tombstones
    {%- endif %}
),

{{ cdc._versions(t) }}

select
    case
        when versions.dbt_scd_id is null and known.dbt_scd_id is null then 'tombstone'
        when known.dbt_scd_id is null then 'insert'
        when versions.dbt_scd_id is null then 'delete'
        else 'update'
    end as dbt_change_type,
    {%- for column in columns %}
    {%- set name = cdc._quoted(column) %}
    {%- if column in t.key_columns + ["dbt_scd_id"] %}
    coalesce(versions.{{ name }}, known.{{ name }}) as {{ name }},
    {%- else %}
    versions.{{ name }},
    {%- endif -%}
    {%- endfor %}
    versions._effects
from versions
full outer join known_versions as known
    on
        versions.dbt_scd_id = known.dbt_scd_id
        and {{ cdc._same(t.key_columns, "versions", "known") }}
where not (struct({{ cdc._column_list(columns, "versions") }}) <=> struct({{ cdc._column_list(columns, "known") }}))
{%- endmacro %}
