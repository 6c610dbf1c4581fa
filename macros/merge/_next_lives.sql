{#-
    The rows of a batch that brings each of its keys one event, a full image or an end, after all that is known of the key: those
    that `_changed_lives` gives, by a join in place of the fold. See `_next_versions`.
-#}
{% macro _next_lives(spec, events, known) -%}
    {%- set time = "__cdc_event." ~ spec.time -%}
    {%- set stays = "(__cdc_is_image and __cdc_was_living and __cdc_is_same)" -%}
    {%- set effects = {
        "inserted": "__cdc_is_image and not __cdc_was_living",
        "updated": "__cdc_is_image and __cdc_was_living and not __cdc_is_same",
        "deleted": "__cdc_event._op = 'D' and __cdc_was_living",
        "unchanged": "if(__cdc_event._op = 'D', not __cdc_was_living, " ~ stays ~ ")",
    } -%}
with paired_events as (
    {{ cdc._paired_events(spec, events, known, cdc._life_columns(spec)) | indent(4) }}
),

compared_events as (
    select
        *,
        __cdc_event._op in ('I', 'U') as __cdc_is_image,
        __cdc_known._cdc_seq is not null and __cdc_known._cdc_deleted_at is null as __cdc_was_living,
        {{ cdc._same(spec.value_columns, "__cdc_event._values", "__cdc_known") or "true" }} as __cdc_is_same,
        case
            when __cdc_known._cdc_seq is null then array({{ cdc._remembered_event(spec) }})
            else concat(
                coalesce(__cdc_known._events, array({{ cdc._sole_event(spec, "__cdc_known") }})),
                array({{ cdc._remembered_event(spec) }})
            )
        end as __cdc_events
    from paired_events
),

{#- As in `_lives`: of what is over, only the last end. #}
remembering_lives as (
    select
        *,
        concat(
            array_compact(array(array_max(filter(__cdc_events, event -> event._op in ('D', 'M'))))),
            filter(__cdc_events, event -> __cdc_is_image and event._op in ('I', 'U'))
        ) as __cdc_kept
    from compared_events
)

select
    {{ cdc._column_list(spec.key_columns) }},
    {%- for column in spec.value_columns %}
    {%- set name = cdc._quoted(column) %}
    if(__cdc_is_image, __cdc_event._values.{{ name }}, null) as {{ name }},
    {%- endfor %}
    if(__cdc_is_image, if(__cdc_was_living, __cdc_known._cdc_created_at, {{ time }}), null) as _cdc_created_at,
    if({{ stays }}, __cdc_known._cdc_updated_at, {{ time }}) as _cdc_updated_at,
    if({{ stays }}, __cdc_known._cdc_seq, __cdc_event._seq) as _cdc_seq,
    if(__cdc_is_image, null, {{ time }}) as _cdc_deleted_at,
    if(__cdc_is_image and size(__cdc_kept) = 1 and size(__cdc_kept[0]._unset) = 0, null, __cdc_kept) as _events,
    if(
        __cdc_is_image,
        if(
            __cdc_was_living,
            coalesce(__cdc_known._event_id, element_at(__cdc_known._events, -1)._event_id),
            __cdc_event._event_id
        ),
        null
    ) as _event_id,
    {{ cdc._counted_effects(effects) }} as _effects,
    __cdc_known._cdc_seq is not null as _is_known,
    'U' as _current_op
from remembering_lives
{%- endmacro %}
