-- step events
with arrived_events as (
    select
        *,
        false as _is_move
    from (select * from app.events_flagged) as source_events
    where _arrived > 8 and _arrived <= 9
)

select
    `order_id`,
    `line`,
    struct(
        `status` as `status`,
        `amount` as `amount`
    ) as _values,
    if(_is_move, 'M', _op) as _op,
    _seq,
    _ts,
    _event_id,
    _unset
from arrived_events;

-- step latest
with touched_keys as (
    select
        `order_id`, `line`,
        _seq as _first_new
    from step_events
    where _op <> 'T'
)

select
    history.`order_id`, history.`line`, history.`status`, history.`amount`, history.`_seq`, history.`_seq_end`, history.`_cdc_created_at`, history.`_cdc_seq`, history.`dbt_scd_id`, history.`dbt_updated_at`, history.`dbt_valid_from`, history.`dbt_valid_to`, history.`_event_id`, history.`_cdc_is_latest`, history._events,
    touched_keys._first_new > coalesce(element_at(history._events, -1)._seq, history._seq) as _is_in_order
from app.history_flagged as history
inner join touched_keys on history.`order_id` <=> touched_keys.`order_id` and history.`line` <=> touched_keys.`line`
where
    history._cdc_is_latest
    and history.`order_id` between 1L and 9L and history.`order_id` in (1L, 5L, 9L);

-- step changes
with paired_events as (
    select
        events.`order_id`, events.`line`,
        struct(
            events._ts, events._values, events._op, events._seq, events._event_id, events._unset
        ) as __cdc_event,
        struct(known.`order_id`, known.`line`, known.`status`, known.`amount`, known.`_seq`, known.`_seq_end`, known.`_cdc_created_at`, known.`_cdc_seq`, known.`_events`, known.`dbt_scd_id`, known.`dbt_updated_at`, known.`dbt_valid_from`, known.`dbt_valid_to`, known.`_event_id`, known.`_cdc_is_latest`) as __cdc_known
    from step_events as events
    left join step_latest as known on events.`order_id` <=> known.`order_id` and events.`line` <=> known.`line`
),

compared_events as (
    select
        *,
        __cdc_event._op in ('I', 'U') as __cdc_is_image,
        __cdc_known.dbt_scd_id is not null and __cdc_known._seq_end is null as __cdc_was_open,
        __cdc_event._values.`status` <=> __cdc_known.`status` and __cdc_event._values.`amount` <=> __cdc_known.`amount` as __cdc_is_same
    from paired_events
),

placed_events as (
    select
        *,
        __cdc_was_open and __cdc_is_image and __cdc_event._values.`status` <=> __cdc_known.`status` as __cdc_goes_on
    from compared_events
),
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
    `order_id`, `line`,
    if(__cdc_is_next or __cdc_goes_on, __cdc_event._values.`status`, __cdc_known.`status`) as `status`,
    if(__cdc_is_next or __cdc_goes_on, __cdc_event._values.`amount`, __cdc_known.`amount`) as `amount`,
    if(__cdc_is_next, __cdc_event._seq, __cdc_known._seq) as _seq,
    if(__cdc_is_next, null, if(__cdc_is_closed, __cdc_event._seq, __cdc_known._seq_end)) as _seq_end,
    if(__cdc_is_next and not __cdc_was_open, __cdc_event._ts, __cdc_known._cdc_created_at) as _cdc_created_at,
    if(__cdc_is_changed, __cdc_event._seq, __cdc_known._cdc_seq) as _cdc_seq,
    case
        when __cdc_is_next then if(size(__cdc_event._unset) = 0, null, array(struct(__cdc_event._seq, if(__cdc_event._op = 'I', 'U', __cdc_event._op) as _op, __cdc_event._event_id, __cdc_event._ts, if(__cdc_event._op in ('I', 'U'), __cdc_event._unset, cast(array() as array<string>)) as _unset, if(__cdc_event._op in ('I', 'U'), struct(__cdc_event._values.`amount`), null) as _image)))
        when __cdc_is_image and not __cdc_goes_on then if(size(__cdc_known._events) = 1 and __cdc_known._events[0]._op = 'U' and size(__cdc_known._events[0]._unset) = 0, null, __cdc_known._events)
        when __cdc_known.dbt_scd_id is null then array(struct(__cdc_event._seq, if(__cdc_event._op = 'I', 'U', __cdc_event._op) as _op, __cdc_event._event_id, __cdc_event._ts, if(__cdc_event._op in ('I', 'U'), __cdc_event._unset, cast(array() as array<string>)) as _unset, if(__cdc_event._op in ('I', 'U'), struct(__cdc_event._values.`amount`), null) as _image))
        else concat(
            coalesce(__cdc_known._events, array(struct(__cdc_known._seq, 'U' as _op, __cdc_known._event_id, __cdc_known.dbt_valid_from as _ts, cast(array() as array<string>) as _unset, struct(__cdc_known.`amount`) as _image))),
            array(struct(__cdc_event._seq, if(__cdc_event._op = 'I', 'U', __cdc_event._op) as _op, __cdc_event._event_id, __cdc_event._ts, if(__cdc_event._op in ('I', 'U'), __cdc_event._unset, cast(array() as array<string>)) as _unset, if(__cdc_event._op in ('I', 'U'), struct(__cdc_event._values.`amount`), null) as _image))
        )
    end as _events,
    if(__cdc_is_next, md5(to_json(struct(`order_id` as key_1, `line` as key_2, __cdc_event._seq as _seq, __cdc_event._event_id as _first_event_id), map('timeZone', 'UTC'))), __cdc_known.dbt_scd_id) as dbt_scd_id,
    if(__cdc_is_changed, __cdc_event._ts, __cdc_known.dbt_updated_at) as dbt_updated_at,
    if(__cdc_is_next, __cdc_event._ts, __cdc_known.dbt_valid_from) as dbt_valid_from,
    if(__cdc_is_next, null, if(__cdc_is_closed, __cdc_event._ts, __cdc_known.dbt_valid_to)) as dbt_valid_to,
    if(__cdc_is_next, __cdc_event._event_id, __cdc_known._event_id) as _event_id,
    __cdc_is_next or __cdc_goes_on or not __cdc_is_image as _cdc_is_latest,
    if(__cdc_is_next, null, __cdc_known._cdc_is_latest) as _was_latest,
    __cdc_was_open and not __cdc_is_next as _was_open,
    __cdc_is_next or __cdc_goes_on as _is_open,
    __cdc_is_changed or __cdc_is_closed or __cdc_known.dbt_scd_id is null as _is_visible,
    struct(if(__cdc_is_next and not __cdc_was_open, 1L, 0L) as inserted, if(__cdc_is_changed and __cdc_was_open, 1L, 0L) as updated, if(__cdc_event._op = 'D' and __cdc_was_open, 1L, 0L) as deleted, if(if(__cdc_event._op = 'D', not __cdc_was_open, __cdc_goes_on and __cdc_is_same), 1L, 0L) as unchanged, 0L as late, 0L as tied) as _effects,
    case
        when __cdc_is_changed then 'U'
        when __cdc_was_open and not __cdc_is_image then 'D'
    end as _current_op,
    __cdc_was_open as _is_known
from marked_versions;

-- rows to append, or to put in place of others
select `order_id`, `line`, `status`, `amount`, `_seq`, `_seq_end`, `_cdc_created_at`, `_cdc_seq`, `_events`, `dbt_scd_id`, `dbt_updated_at`, `dbt_valid_from`, `dbt_valid_to`, `_event_id`, `_cdc_is_latest` from step_changes where dbt_change_type in ('insert', 'update');

-- merge
merge into app.history_flagged as DBT_INTERNAL_DEST
using step_changes as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.dbt_scd_id = DBT_INTERNAL_SOURCE.dbt_scd_id
    and DBT_INTERNAL_SOURCE.dbt_change_type <> 'tombstone'
    and DBT_INTERNAL_DEST.`order_id` between 1L and 9L and DBT_INTERNAL_DEST.`order_id` in (1L, 5L, 9L)
    and DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
when matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'delete' then delete
when matched then update set `order_id` = DBT_INTERNAL_SOURCE.`order_id`, `line` = DBT_INTERNAL_SOURCE.`line`, `status` = DBT_INTERNAL_SOURCE.`status`, `amount` = DBT_INTERNAL_SOURCE.`amount`, `_seq` = DBT_INTERNAL_SOURCE.`_seq`, `_seq_end` = DBT_INTERNAL_SOURCE.`_seq_end`, `_cdc_created_at` = DBT_INTERNAL_SOURCE.`_cdc_created_at`, `_cdc_seq` = DBT_INTERNAL_SOURCE.`_cdc_seq`, `_events` = DBT_INTERNAL_SOURCE.`_events`, `dbt_scd_id` = DBT_INTERNAL_SOURCE.`dbt_scd_id`, `dbt_updated_at` = DBT_INTERNAL_SOURCE.`dbt_updated_at`, `dbt_valid_from` = DBT_INTERNAL_SOURCE.`dbt_valid_from`, `dbt_valid_to` = DBT_INTERNAL_SOURCE.`dbt_valid_to`, `_event_id` = DBT_INTERNAL_SOURCE.`_event_id`, `_cdc_is_latest` = DBT_INTERNAL_SOURCE.`_cdc_is_latest`
when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert' then insert (`order_id`, `line`, `status`, `amount`, `_seq`, `_seq_end`, `_cdc_created_at`, `_cdc_seq`, `_events`, `dbt_scd_id`, `dbt_updated_at`, `dbt_valid_from`, `dbt_valid_to`, `_event_id`, `_cdc_is_latest`) values (DBT_INTERNAL_SOURCE.`order_id`, DBT_INTERNAL_SOURCE.`line`, DBT_INTERNAL_SOURCE.`status`, DBT_INTERNAL_SOURCE.`amount`, DBT_INTERNAL_SOURCE.`_seq`, DBT_INTERNAL_SOURCE.`_seq_end`, DBT_INTERNAL_SOURCE.`_cdc_created_at`, DBT_INTERNAL_SOURCE.`_cdc_seq`, DBT_INTERNAL_SOURCE.`_events`, DBT_INTERNAL_SOURCE.`dbt_scd_id`, DBT_INTERNAL_SOURCE.`dbt_updated_at`, DBT_INTERNAL_SOURCE.`dbt_valid_from`, DBT_INTERNAL_SOURCE.`dbt_valid_to`, DBT_INTERNAL_SOURCE.`_event_id`, DBT_INTERNAL_SOURCE.`_cdc_is_latest`);
