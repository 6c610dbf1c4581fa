{#-
    What is known of the keys that a run touches, and the versions that it changes, as plain SELECTs. There are two ways.

    Events in order: where all new events of a key come after the last one known, only its latest version matters.
    `_latest_versions` reads these, and the fold takes each as one event, its state. Everything else: late-arriving events,
    truncates, rows that are followed through their keys. `_whole_histories` reads all versions of these keys, and the fold takes
    the events that made them, together with the new ones.
-#}

{#- The latest version of each touched key, and whether the new events of the key are in order after it. -#}
{% macro _latest_versions(spec, events, bounds, is_single) -%}
with touched_keys as (
    {{ cdc._touched_keys(spec, events, is_single) | indent(4) }}
)

select
    {{ cdc._stored_columns(spec, "history") }},
    touched_keys._first_new > coalesce(element_at(history._events, -1)._seq, history._seq) as _is_in_order
from {{ spec.relation }} as history
inner join touched_keys on {{ cdc._same(spec.key_columns, "history", "touched_keys") }}
where
    history._cdc_is_latest
    and {{ cdc._is_within(bounds, "history") }}
{%- endmacro %}


{#-
    The keys of the new events, with the position of the first one.
      is_single   whether no key has two
-#}
{% macro _touched_keys(spec, events, is_single) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
select
    {{ keys }},
    {{ "_seq" if is_single else "min(_seq)" }} as _first_new
from {{ events.relation }}
where _op <> 'T'
{%- if not is_single %}
group by {{ keys }}
{%- endif %}
{%- endmacro %}


{#- All versions of the keys whose new events are not in order. -#}
{% macro _late_histories(spec, latest, bounds) -%}
select {{ cdc._stored_columns(spec, "history") }}
from {{ spec.relation }} as history
left semi join (select * from {{ latest.relation }} where not _is_in_order) as late_keys
    on {{ cdc._same(spec.key_columns, "history", "late_keys") }}
where {{ cdc._is_within(bounds, "history") }}
{%- endmacro %}


{#- All versions of the touched keys, and those that a new truncate falls into. -#}
{% macro _whole_histories(spec, events, has_truncates, bounds) -%}
with touched_keys as (
    select {{ cdc._column_list(spec.key_columns) }}
    from {{ events.relation }}
    where _op <> 'T'
    {%- if spec.follows %}
    union
    select explode(_former_entity_ids)
    from {{ events.relation }}
    {%- endif %}
    {%- if spec.by_position %}
    union
    select {{ cdc._column_list(spec.key_columns, "history") }}
    from {{ spec.relation }} as history
    left semi join {{ events.relation }} as given on history._seq = given._seq
    {%- endif %}
    {%- if has_truncates %}
    union
    select {{ cdc._column_list(spec.key_columns, "history") }}
    from {{ spec.relation }} as history
    inner join {{ events.relation }} as new_truncates
        on
            new_truncates._op = 'T'
            and history._seq <= new_truncates._seq
            and (history._seq_end is null or new_truncates._seq <= history._seq_end)
    {%- endif %}
)

select {{ cdc._stored_columns(spec, "history") }}
from {{ spec.relation }} as history
left semi join touched_keys on {{ cdc._same(spec.key_columns, "history", "touched_keys") }}
where {{ cdc._is_within(bounds, "history") }}
{%- endmacro %}


{% macro _stored_columns(spec, alias=none) -%}
    {%- set others = cdc._history_columns(spec) | reject("equalto", "_events") -%}
    {{ return(cdc._column_list(others, alias) ~ ", " ~ cdc._kept_events(spec, alias)) }}
{%- endmacro %}


{#-
    The versions that come out differently when the new events are folded into what is known. A tombstone row carries the ends of
    a key without versions. Where rows are followed through their keys, the resolver's table holds all events, and they are read
    there: some may have changed their row.
      known   relations of the steps: events, latest (or none), whole (or none: nothing is known)
-#}
{% macro _changed_versions(spec, known, has_tombstones, read_from, read_to) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
    {%- set times = "_ts, " if spec.time == "_ts" else "" -%}
    {%- set columns = cdc._history_columns(spec) -%}
    {%- set one_partition = cdc._one_partition(known.latest and not known.whole and not spec.splits) -%}
    {%- set sources = [] -%}
with
{%- if known.latest %}

{{ cdc._state_events(spec, known.latest) }},
{%- do sources.append("state_events") %}
{%- endif %}
{%- if known.whole %}

whole_versions as (
    select {{ cdc._stored_columns(spec) if known.whole.relation == spec.relation else cdc._column_list(columns) }}
    from {{ known.whole.relation }}
),
{%- endif %}

known_versions as (
    {%- if known.latest %}
    select {{ one_partition }}* from ordered_versions
    {%- endif %}
    {%- if known.latest and known.whole %}
    union all
    {%- endif %}
    {%- if known.whole %}
    select * from whole_versions
    {%- endif %}
),

truncates as (
    select
        _seq,
        {{ times }}_event_id
    from {{ known.events.relation }}
    where _op = 'T'
    {%- if has_tombstones %}
    union
    select
        _seq,
        {{ times }}_event_id
    from {{ spec.tombstones }}
    where _op = 'T'
    {%- endif %}
),

new_events as (
    {%- if spec.follows %}
    with touched_entities as (
        select _entity_id
        from {{ known.events.relation }}
        union
        select explode(_former_entity_ids)
        from {{ known.events.relation }}
        union
        select _entity_id
        from known_versions
    )

    select
        events.* except (_former_entity_ids, _resolved),
        _resolved > {{ read_from if read_from is not none else 0 }} and size(_former_entity_ids) = 0 as _is_new
    from ({{ cdc._new_events(spec, until=read_to) }}) as events
    left semi join touched_entities on events._entity_id = touched_entities._entity_id
    where _op <> 'T'
    {%- else %}
    select
        *,
        true as _is_new
    from {{ known.events.relation }}
    where _op <> 'T'
    {%- endif %}
),
{%- if known.whole and not spec.rebuild and not spec.follows %}

{{ cdc._remembered_events(spec) }},
{%- do sources.append("known_events") %}
{%- endif %}
{%- if has_tombstones and not (spec.rebuild or spec.follows) %}

{{ cdc._remembered_tombstones(spec, known.latest) }},
{%- do sources.append("known_tombstones") %}
{%- endif %}

{%- if spec.recognizes and "known_events" in sources %}

{{ cdc._recognized_events(spec) }},
{%- set sources = ["other_known_events", "recalled_events"] + (sources | reject("equalto", "known_events") | list) %}
{%- endif %}

events as (
    select {{ one_partition }}*
    from (
        select *{{ ", null as _state" if known.latest }} from {{ "other_" if "recalled_events" in sources }}new_events
        {%- for source in sources %}
        union all
        select *{{ ", null as _state" if known.latest and source != "state_events" }} from {{ source }}
        {%- endfor %}
    ) as all_events
),

{{ cdc._versions(dict(spec, stateful=known.latest is not none, counted=true)) }},


{{ cdc._version_changes(spec, one_partition) }}

select
    *,
    {#- What becomes of the current row of the key, for the final table. -#}
    case
        when _is_open and _is_visible then 'U'
        when _was_open and not max(_is_open) over (partition by {{ keys }}) then 'D'
    end as _current_op,
    max(_was_open) over (partition by {{ keys }}) as _is_known
from changes
{%- endmacro %}


{#- The latest versions whose new events are in order, each as the event that made its state, and the one that ended it. -#}
{% macro _state_events(spec, latest) -%}
ordered_versions as (
    select {{ cdc._column_list(cdc._history_columns(spec)) }}
    from {{ latest.relation }}
    where _is_in_order
),

states as (
    select
        *,
        explode(if(_seq_end is null, array(false), array(false, true))) as _is_end_of_state
    from ordered_versions
),

state_events as (
    select
        {{ cdc._column_list(spec.key_columns) }},
        {{ cdc._values_struct(spec) }} as _values,
        if(_is_end_of_state, 'E', 'S') as _op,
        if(_is_end_of_state, _seq_end, _seq) as _seq,
        {%- if spec.time == "_ts" %}
        if(_is_end_of_state, dbt_valid_to, dbt_valid_from) as _ts,
        {%- endif %}
        _event_id,
        cast(array() as array<string>) as _unset,
        false as _is_new,
        if(_is_end_of_state, null, struct(
            _cdc_created_at, _cdc_seq, dbt_updated_at, dbt_scd_id, _event_id, _events, {{ cdc._sole_event(spec) }} as _sole_event
        )) as _state
    from states
)
{%- endmacro %}


{#- The events behind the versions that are read whole. -#}
{% macro _remembered_events(spec) -%}
unfolded_versions as (
    select
        *,
        explode(coalesce(_events, array({{ cdc._sole_event(spec) }}))) as _event
    from whole_versions
),

known_events as (
    select
        {{ cdc._column_list(spec.key_columns) }},
        {{ cdc._remembered_values(spec) }} as _values,
        _event._op,
        _event._seq,
        {{ "_event._ts," if spec.time == "_ts" }}
        _event._event_id,
        _event._unset,
        false as _is_new
    from unfolded_versions
    where _event._op <> 'T'
)
{%- endmacro %}


{#- The tombstones of the keys that have new events. Keys whose new events are in order need none. -#}
{% macro _remembered_tombstones(spec, latest) -%}
known_tombstones as (
    select
        {{ cdc._column_list(spec.key_columns, "tombstones") }},
        new_events._values,
        tombstones._op,
        tombstones._seq,
        {{ "tombstones._ts," if spec.time == "_ts" }}
        tombstones._event_id,
        cast(array() as array<string>) as _unset,
        false as _is_new
    from {{ spec.tombstones }} as tombstones
    inner join (
        select
            {{ cdc._column_list(spec.key_columns) }},
            any_value(_values) as _values
        from new_events
        group by {{ cdc._column_list(spec.key_columns) }}
    ) as new_events on {{ cdc._same(spec.key_columns, "tombstones", "new_events") }}
    {%- if latest %}
    left anti join ordered_versions on {{ cdc._same(spec.key_columns, "tombstones", "ordered_versions") }}
    {%- endif %}
    where tombstones._op <> 'T'
)
{%- endmacro %}


{#- What becomes of each version: those that were folded now beside those that are known. -#}
{% macro _version_changes(spec, one_partition) -%}
    {%- set columns = cdc._history_columns(spec) -%}
    {%- set visible = spec.key_columns + spec.value_columns + ["_seq_end", "_cdc_created_at", "_cdc_seq", "dbt_updated_at"] -%}
changes as (
    select {{ one_partition }}
        case
            when versions.dbt_scd_id is null and known.dbt_scd_id is null then 'tombstone'
            when known.dbt_scd_id is null then 'insert'
            when versions.dbt_scd_id is null then 'delete'
            else 'update'
        end as dbt_change_type,
        {%- for column in columns %}
        {%- set name = cdc._quoted(column) %}
        {%- if column in spec.key_columns + ["dbt_scd_id"] %}
        coalesce(versions.{{ name }}, known.{{ name }}) as {{ name }},
        {%- else %}
        versions.{{ name }},
        {%- endif -%}
        {%- endfor %}
        known._cdc_is_latest as _was_latest,
        known.dbt_scd_id is not null and known._seq_end is null as _was_open,
        versions.dbt_scd_id is not null and versions._seq_end is null as _is_open,
        {#- A version that only remembers one event more is the same row. -#}
        not (struct({{ cdc._column_list(visible, "versions") }}) <=> struct({{ cdc._column_list(visible, "known") }})) as _is_visible,
        versions._effects
    from versions
    full outer join known_versions as known
        on
            versions.dbt_scd_id = known.dbt_scd_id
            and {{ cdc._same(spec.key_columns, "versions", "known") }}
    where not (struct({{ cdc._column_list(columns, "versions") }}) <=> struct({{ cdc._column_list(columns, "known") }}))
)
{%- endmacro %}


{#-
    The hint for rows that are few: as one partition they need no shuffle to be grouped, ordered and joined.
      is_few   whether they are; else there is no hint
-#}
{% macro _one_partition(is_few) -%}
    {{ return("/*+ coalesce(1) */ " if is_few else "") }}
{%- endmacro %}


{#-
    The one event of a version, or of a row of a table without a history, that has no `_events`: a full image, whose values are
    those of the version.
-#}
{% macro _sole_event(spec, alias=none) -%}
    {%- set prefix = alias ~ "." if alias else "" -%}
    {%- set kept = cdc._kept_columns(spec) -%}
    {%- set fields = [prefix ~ ("_cdc_seq as _seq" if spec.lives else "_seq"), "'U' as _op", prefix ~ "_event_id"] -%}
    {%- if spec.time == "_ts" -%}
        {%- do fields.append(prefix ~ ("_cdc_updated_at" if spec.lives else "dbt_valid_from") ~ " as _ts") -%}
    {%- endif -%}
    {%- do fields.append("cast(array() as array<string>) as _unset") -%}
    {%- if kept -%}
        {%- do fields.append("struct(" ~ cdc._column_list(kept, alias) ~ ") as _image") -%}
    {%- endif -%}
    {{ return("struct(" ~ (fields | join(", ")) ~ ")") }}
{%- endmacro %}


{#- The values of a remembered event: tracked columns are those of its version, the others stand in its image. -#}
{% macro _remembered_values(spec) -%}
    {%- set untracked = cdc._untracked(spec) -%}
    {%- if not spec.value_columns -%}
        {{ return(cdc._values_struct(spec)) }}
    {%- endif -%}
    {%- set fields = [] -%}
    {%- for column in spec.value_columns -%}
        {%- set name = cdc._quoted(column) -%}
        {%- do fields.append(("_event._image." if column in untracked else "") ~ name ~ " as " ~ name) -%}
    {%- endfor -%}
    {{ return("struct(" ~ (fields | join(", ")) ~ ")") }}
{%- endmacro %}
