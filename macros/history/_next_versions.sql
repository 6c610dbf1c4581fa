{#-
    The changes of a batch that brings each of its keys one event, a full image or an end, after all that is known of the key.
    They are those that `_changed_versions` gives, by a join in place of the fold: the latest version of the key goes on, ends, or
    gives way to a next one. Most small batches are such, and Spark plans this in a quarter of the time.
      known   relations of the steps: events, latest
-#}
{% macro _next_versions(spec, known) -%}
    {%- set time = "__cdc_event." ~ spec.time -%}
with paired_events as (
    {{ cdc._paired_events(spec, known.events, known.latest, cdc._history_columns(spec)) | indent(4) }}
),

compared_events as (
    select
        *,
        __cdc_event._op in ('I', 'U') as __cdc_is_image,
        __cdc_known.dbt_scd_id is not null and __cdc_known._seq_end is null as __cdc_was_open,
        {{ cdc._same(spec.value_columns, "__cdc_event._values", "__cdc_known") or "true" }} as __cdc_is_same
    from paired_events
),

placed_events as (
    select
        *,
        __cdc_was_open and __cdc_is_image and {{ cdc._same(spec.tracked, "__cdc_event._values", "__cdc_known") or "true" }} as __cdc_goes_on
    from compared_events
),

{#- The known version, or the tombstone of a key that is not known, and the next version. #}
next_versions as (
    select
        *,
        explode(case
            when not __cdc_is_image or __cdc_goes_on then array(false)
            when __cdc_known.dbt_scd_id is null then array(true)
            else array(false, true)
        end) as __cdc_is_next
    from placed_events
),

marked_versions as (
    select
        *,
        __cdc_is_next or (__cdc_goes_on and not __cdc_is_same) as __cdc_is_changed,
        __cdc_was_open and not __cdc_goes_on and not __cdc_is_next as __cdc_is_closed
    from next_versions
)

select
    case
        when __cdc_is_next then 'insert'
        when __cdc_known.dbt_scd_id is null then 'tombstone'
        else 'update'
    end as dbt_change_type,
    {{ cdc._column_list(spec.key_columns) }},
    {%- for column in spec.value_columns %}
    {%- set name = cdc._quoted(column) %}
    if(__cdc_is_next or __cdc_goes_on, __cdc_event._values.{{ name }}, __cdc_known.{{ name }}) as {{ name }},
    {%- endfor %}
    if(__cdc_is_next, __cdc_event._seq, __cdc_known._seq) as _seq,
    if(__cdc_is_next, null, if(__cdc_is_closed, __cdc_event._seq, __cdc_known._seq_end)) as _seq_end,
    if(__cdc_is_next and not __cdc_was_open, {{ time }}, __cdc_known._cdc_created_at) as _cdc_created_at,
    if(__cdc_is_changed, __cdc_event._seq, __cdc_known._cdc_seq) as _cdc_seq,
    case
        when __cdc_is_next then if(size(__cdc_event._unset) = 0, null, array({{ cdc._remembered_event(spec) }}))
        when __cdc_is_image and not __cdc_goes_on then {{ cdc._without_sole_event("__cdc_known._events") }}
        when __cdc_known.dbt_scd_id is null then array({{ cdc._remembered_event(spec) }})
        else concat(
            coalesce(__cdc_known._events, array({{ cdc._sole_event(spec, "__cdc_known") }})),
            array({{ cdc._remembered_event(spec) }})
        )
    end as _events,
    if(__cdc_is_next, {{ cdc._version_id(spec, "__cdc_event._event_id", "__cdc_event._seq as _seq") }}, __cdc_known.dbt_scd_id) as dbt_scd_id,
    if(__cdc_is_changed, {{ time }}, __cdc_known.dbt_updated_at) as dbt_updated_at,
    if(__cdc_is_next, {{ time }}, __cdc_known.dbt_valid_from) as dbt_valid_from,
    if(__cdc_is_next, null, if(__cdc_is_closed, {{ time }}, __cdc_known.dbt_valid_to)) as dbt_valid_to,
    if(__cdc_is_next, __cdc_event._event_id, __cdc_known._event_id) as _event_id,
    __cdc_is_next or __cdc_goes_on or not __cdc_is_image as _cdc_is_latest,
    if(__cdc_is_next, null, __cdc_known._cdc_is_latest) as _was_latest,
    __cdc_was_open and not __cdc_is_next as _was_open,
    __cdc_is_next or __cdc_goes_on as _is_open,
    {%- if spec.follows %}
    struct({{ cdc._column_list(spec.follows, "__cdc_known") }}) as __cdc_former_key,
    {%- endif %}
    __cdc_is_changed or __cdc_is_closed or __cdc_known.dbt_scd_id is null as _is_visible,
    {{ cdc._counted_effects({
        "inserted": "__cdc_is_next and not __cdc_was_open",
        "updated": "__cdc_is_changed and __cdc_was_open",
        "deleted": "__cdc_event._op = 'D' and __cdc_was_open",
        "unchanged": "if(__cdc_event._op = 'D', not __cdc_was_open, __cdc_goes_on and __cdc_is_same)",
    }) }} as _effects,
    case
        when __cdc_is_changed then 'U'
        when __cdc_was_open and not __cdc_is_image then 'D'
    end as _current_op,
    __cdc_was_open as _is_known
from marked_versions
{%- endmacro %}


{#- The events of a batch, one for each key, beside what is known of the key: two structs, so that no two columns have one name. -#}
{% macro _paired_events(spec, events, known, columns) -%}
select
    {{ cdc._column_list(spec.key_columns, "events") }},
    struct(
        {{ "events._ts, " if spec.time == "_ts" }}events._values, events._op, events._seq, events._event_id, events._unset
    ) as __cdc_event,
    struct({{ cdc._column_list(columns, "known") }}) as __cdc_known
from {{ events.relation }} as events
left join {{ known.relation }} as known on {{ cdc._same(spec.key_columns, "events", "known") }}
{%- endmacro %}


{#- What a row remembers of the event that `_paired_events` gives. -#}
{% macro _remembered_event(spec) -%}
    {%- set kept = cdc._kept_columns(spec) -%}
    {%- set is_image = "__cdc_event._op in ('I', 'U')" -%}
    {%- set fields = [
        "__cdc_event._seq", "if(__cdc_event._op = 'I', 'U', __cdc_event._op) as _op", "__cdc_event._event_id",
    ] + (["__cdc_event._ts"] if spec.time == "_ts" else []) + [
        "if(" ~ is_image ~ ", __cdc_event._unset, cast(array() as array<string>)) as _unset",
    ] -%}
    {%- if kept -%}
        {%- do fields.append("if(" ~ is_image ~ ", " ~ cdc._image_of(spec, kept, "__cdc_event._values") ~ ", null) as _image") -%}
    {%- endif -%}
    {{ return("struct(" ~ (fields | join(", ")) ~ ")") }}
{%- endmacro %}


{#- What an event did, by conditions. -#}
{% macro _counted_effects(conditions) -%}
    {%- set fields = [] -%}
    {%- for effect in cdc._effects() -%}
        {%- do fields.append(("if(" ~ conditions[effect] ~ ", 1L, 0L)" if effect in conditions else "0L") ~ " as " ~ effect) -%}
    {%- endfor -%}
    {{ return("struct(" ~ (fields | join(", ")) ~ ")") }}
{%- endmacro %}
