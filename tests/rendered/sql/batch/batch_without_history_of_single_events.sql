-- step events
with arrived_events as (
    select
        *,
        false as _is_move
    from (select * from app.events_flagged_images) as source_events
    where _arrived > 8 and _arrived <= 9
)

select
    `sku`,
    struct(
        `price` as `price`,
        `listed_on` as `listed_on`
    ) as _values,
    if(_is_move, 'M', _op) as _op,
    _seq,
    _event_id,
    _unset
from arrived_events;

-- step known
with touched_keys as (
    select
        `sku`,
        _seq as _first_new
    from step_events
    where _op <> 'T'
)

select
    known.`sku`, known.`price`, known.`listed_on`, known.`_cdc_created_at`, known.`_cdc_updated_at`, known.`_cdc_seq`, known.`_cdc_deleted_at`, known.`_event_id`, known._events,
    (known.`sku` is null) as _is_truncate,
    (known.`sku` is null) or touched_keys._first_new > coalesce(element_at(known._events, -1)._seq, known._cdc_seq) as _is_in_order
from app.current_without_history as known
left join touched_keys on known.`sku` <=> touched_keys.`sku`
where
    (known.`sku` between 'a' and 'c' and known.`sku` in ('a', 'b', 'c') or known.`sku` is null)
    and (touched_keys._first_new is not null or (known.`sku` is null));

-- step changes
with paired_events as (
    select
        events.`sku`,
        struct(
            events._values, events._op, events._seq, events._event_id, events._unset
        ) as __cdc_event,
        struct(known.`sku`, known.`price`, known.`listed_on`, known.`_cdc_created_at`, known.`_cdc_updated_at`, known.`_cdc_seq`, known.`_cdc_deleted_at`, known.`_events`, known.`_event_id`) as __cdc_known
    from step_events as events
    left join step_known as known on events.`sku` <=> known.`sku`
),

compared_events as (
    select
        *,
        __cdc_event._op in ('I', 'U') as __cdc_is_image,
        __cdc_known._cdc_seq is not null and __cdc_known._cdc_deleted_at is null as __cdc_was_living,
        __cdc_event._values.`price` <=> __cdc_known.`price` and __cdc_event._values.`listed_on` <=> __cdc_known.`listed_on` as __cdc_is_same,
        case
            when __cdc_known._cdc_seq is null then array(struct(__cdc_event._seq, if(__cdc_event._op = 'I', 'U', __cdc_event._op) as _op, __cdc_event._event_id, if(__cdc_event._op in ('I', 'U'), __cdc_event._unset, cast(array() as array<string>)) as _unset, if(__cdc_event._op in ('I', 'U'), __cdc_event._values, null) as _image))
            else concat(
                coalesce(__cdc_known._events, array(struct(__cdc_known._cdc_seq as _seq, 'U' as _op, __cdc_known._event_id, cast(array() as array<string>) as _unset, struct(__cdc_known.`price`, __cdc_known.`listed_on`) as _image))),
                array(struct(__cdc_event._seq, if(__cdc_event._op = 'I', 'U', __cdc_event._op) as _op, __cdc_event._event_id, if(__cdc_event._op in ('I', 'U'), __cdc_event._unset, cast(array() as array<string>)) as _unset, if(__cdc_event._op in ('I', 'U'), __cdc_event._values, null) as _image))
            )
        end as __cdc_events
    from paired_events
),
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
    `sku`,
    if(__cdc_is_image, __cdc_event._values.`price`, null) as `price`,
    if(__cdc_is_image, __cdc_event._values.`listed_on`, null) as `listed_on`,
    if(__cdc_is_image, if(__cdc_was_living, __cdc_known._cdc_created_at, __cdc_event._seq), null) as _cdc_created_at,
    if((__cdc_is_image and __cdc_was_living and __cdc_is_same), __cdc_known._cdc_updated_at, __cdc_event._seq) as _cdc_updated_at,
    if((__cdc_is_image and __cdc_was_living and __cdc_is_same), __cdc_known._cdc_seq, __cdc_event._seq) as _cdc_seq,
    if(__cdc_is_image, null, __cdc_event._seq) as _cdc_deleted_at,
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
    struct(if(__cdc_is_image and not __cdc_was_living, 1L, 0L) as inserted, if(__cdc_is_image and __cdc_was_living and not __cdc_is_same, 1L, 0L) as updated, if(__cdc_event._op = 'D' and __cdc_was_living, 1L, 0L) as deleted, if(if(__cdc_event._op = 'D', not __cdc_was_living, (__cdc_is_image and __cdc_was_living and __cdc_is_same)), 1L, 0L) as unchanged, 0L as late, 0L as tied) as _effects,
    __cdc_known._cdc_seq is not null as _is_known,
    'U' as _current_op
from remembering_lives;

-- rows to append, or to put in place of others
select `sku`, `price`, `listed_on`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, `_cdc_deleted_at`, `_events`, `_event_id` from (select `sku`, `price`, `listed_on`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, `_cdc_deleted_at`, `_events`, `_event_id`, _current_op, _is_known from step_changes where _current_op is not null) where _current_op = 'U';

-- merge
merge into app.current_without_history as DBT_INTERNAL_DEST
using (select `sku`, `price`, `listed_on`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, `_cdc_deleted_at`, `_events`, `_event_id`, _current_op, _is_known from step_changes where _current_op is not null) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`sku` <=> DBT_INTERNAL_SOURCE.`sku`
when matched and DBT_INTERNAL_SOURCE._current_op = 'D' then delete
when matched then update set `sku` = DBT_INTERNAL_SOURCE.`sku`, `price` = DBT_INTERNAL_SOURCE.`price`, `listed_on` = DBT_INTERNAL_SOURCE.`listed_on`, `_cdc_created_at` = DBT_INTERNAL_SOURCE.`_cdc_created_at`, `_cdc_updated_at` = DBT_INTERNAL_SOURCE.`_cdc_updated_at`, `_cdc_seq` = DBT_INTERNAL_SOURCE.`_cdc_seq`, `_cdc_deleted_at` = DBT_INTERNAL_SOURCE.`_cdc_deleted_at`, `_events` = DBT_INTERNAL_SOURCE.`_events`, `_event_id` = DBT_INTERNAL_SOURCE.`_event_id`
when not matched and DBT_INTERNAL_SOURCE._current_op = 'U' then insert (`sku`, `price`, `listed_on`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, `_cdc_deleted_at`, `_events`, `_event_id`) values (DBT_INTERNAL_SOURCE.`sku`, DBT_INTERNAL_SOURCE.`price`, DBT_INTERNAL_SOURCE.`listed_on`, DBT_INTERNAL_SOURCE.`_cdc_created_at`, DBT_INTERNAL_SOURCE.`_cdc_updated_at`, DBT_INTERNAL_SOURCE.`_cdc_seq`, DBT_INTERNAL_SOURCE.`_cdc_deleted_at`, DBT_INTERNAL_SOURCE.`_events`, DBT_INTERNAL_SOURCE.`_event_id`);
