{#-
    The versions that come out differently when the new events are folded into what is known. A tombstone row carries the ends of
    a key without versions.
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

{% if spec.follows and known.whole -%}
{{ cdc._entity_events(spec, known, read_from, read_to) }},
{%- else -%}
new_events as (
    select
        *{{ " except (_former_entity_ids, _resolved)" if spec.follows }},
        true as _is_new
    from {{ known.events.relation }}
    where _op <> 'T'
),
{%- endif %}
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
        {%- if spec.follows %}
        struct({{ cdc._column_list(spec.follows, "known") }}) as __cdc_former_key,
        {%- endif %}
        {#- A version that only remembers one event more is the same row. #}
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
