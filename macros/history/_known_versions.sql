{#-
    What is known of the keys that a run touches, as plain SELECTs. There are two ways.

    Events in order: where all new events of a key come after the last one known, only its latest version matters.
    `_latest_versions` reads these, and the fold takes each as one event, its state. Everything else: late-arriving events,
    truncates, events that the resolver found to be of another row than before. `_whole_histories` reads all versions of these keys,
    and the fold takes the events that made them, together with the new ones.
-#}

{#-
    The versions that are known of the keys of a batch, as steps: the latest one of each key, and all of the keys whose new events
    are not in order after it. Where that cannot tell, all versions of all touched keys.
-#}
{% macro _known_versions(spec, window, events, facts, bounds) -%}
    {{ return(adapter.dispatch("known_versions", "cdc")(spec, window, events, facts, bounds)) }}
{%- endmacro %}


{#- The portable way: all versions of the touched keys, in one step. -#}
{% macro default__known_versions(spec, window, events, facts, bounds) -%}
    {%- if spec.rebuild -%}
        {{ return({"events": events, "latest": none, "whole": {"relation": spec.relation}}) }}
    {%- endif -%}
    {{ return({"events": events, "latest": none, "whole": cdc._step(
        spec, "known", cdc._whole_histories(spec, events, facts.truncates > 0, bounds), window.few and not spec.follows, scans_table=true
    )}) }}
{%- endmacro %}


{% macro sparkcdc__known_versions(spec, window, events, facts, bounds) -%}
    {%- if spec.rebuild or spec.by_position or facts.truncates or facts.relabeled or window.read_from is none
        or (spec.follows and facts.has_tombstones and cdc._has_tombstones_of(spec, events)) -%}
        {{ return(cdc.default__known_versions(spec, window, events, facts, bounds)) }}
    {%- endif -%}
    {%- set latest_sql = cdc._latest_versions(spec, events, bounds, facts.single) -%}
    {%- set latest = cdc._step(spec, "latest", latest_sql, window.few, scans_table=true) -%}
    {%- set whole = none -%}
    {%- if cdc._has_any(latest, "_is_in_order", false) -%}
        {%- if spec.follows -%}
            {#- The resolver's table has the events of these rows, and is read for all of them. -#}
            {{ return(cdc.default__known_versions(spec, window, events, facts, bounds)) }}
        {%- endif -%}
        {%- set whole = cdc._step(spec, "late", cdc._late_histories(spec, latest, bounds), window.few, scans_table=true) -%}
    {%- endif -%}
    {{ return({"events": events, "latest": latest, "whole": whole}) }}
{%- endmacro %}


{#-
    Whether one of the rows that new events belong to ended before a version of it was seen. The label that its tombstone has may be
    outdated: the resolver's table tells.
-#}
{% macro _has_tombstones_of(spec, events) -%}
    {%- set found -%}
        select 1
        from {{ spec.tombstones }} as tombstones
        left semi join {{ events.relation }} as events on {{ cdc._same(spec.key_columns, "tombstones", "events") }}
        where tombstones._op <> 'T'
        limit 1
    {%- endset -%}
    {{ return(cdc._has_rows(found)) }}
{%- endmacro %}


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
