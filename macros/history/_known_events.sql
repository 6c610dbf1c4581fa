{#- The events that `_changed_versions` folds again with the new ones, as CTEs of what is known. -#}

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


{#-
    The events of rows that are followed through their keys, the new ones and the known ones. Some may have changed their row: the
    resolver's table holds all events, and they are read there.
-#}
{% macro _entity_events(spec, known, read_from, read_to) -%}
new_events as (
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
)
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
