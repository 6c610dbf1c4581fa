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

-- step known
with touched_keys as (
    select `order_id`, `line`
    from step_events
    where _op <> 'T'
    union
    select history.`order_id`, history.`line`
    from app.history_flagged as history
    inner join step_events as new_truncates
        on
            new_truncates._op = 'T'
            and history._seq <= new_truncates._seq
            and (history._seq_end is null or new_truncates._seq <= history._seq_end)
)

select history.`order_id`, history.`line`, history.`status`, history.`amount`, history.`_seq`, history.`_seq_end`, history.`_cdc_created_at`, history.`_cdc_seq`, history.`dbt_scd_id`, history.`dbt_updated_at`, history.`dbt_valid_from`, history.`dbt_valid_to`, history.`_event_id`, history.`_cdc_is_latest`, history._events
from app.history_flagged as history
left semi join touched_keys on history.`order_id` <=> touched_keys.`order_id` and history.`line` <=> touched_keys.`line`
where true;

-- step changes
with

whole_versions as (
    select `order_id`, `line`, `status`, `amount`, `_seq`, `_seq_end`, `_cdc_created_at`, `_cdc_seq`, `_events`, `dbt_scd_id`, `dbt_updated_at`, `dbt_valid_from`, `dbt_valid_to`, `_event_id`, `_cdc_is_latest`
    from step_known
),

known_versions as (
    select * from whole_versions
),

truncates as (
    select
        _seq,
        _ts, _event_id
    from step_events
    where _op = 'T'
),

new_events as (
    select
        *,
        true as _is_new
    from step_events
    where _op <> 'T'
),

unfolded_versions as (
    select
        *,
        explode(coalesce(_events, array(struct(_seq, 'U' as _op, _event_id, dbt_valid_from as _ts, cast(array() as array<string>) as _unset, struct(`amount`) as _image)))) as _event
    from whole_versions
),

known_events as (
    select
        `order_id`, `line`,
        struct(`status` as `status`, _event._image.`amount` as `amount`) as _values,
        _event._op,
        _event._seq,
        _event._ts,
        _event._event_id,
        _event._unset,
        false as _is_new
    from unfolded_versions
    where _event._op <> 'T'
),

events as (
    select *
    from (
        select * from new_events
        union all
        select * from known_events
    ) as all_events
),


truncate_positions as (
    select collect_list(struct(_seq, _ts, _event_id)) as _positions
    from truncates
),truncated_events as (
    select
        events.*,
        case
            when _op in ('I', 'U', 'B') and size(_positions) > 0
                then array_min(filter(_positions, truncate -> truncate._seq >= events._seq))
        end as _truncate
    from events
    cross join truncate_positions
),

closed_events as (
    select
        *,
        explode(if(_truncate is null, array(false), array(false, true))) as _is_truncate
    from truncated_events
),

timed_events as (
    select
        `order_id`, `line`,
        _values,
        if(_is_truncate, 'T', _op) as _op,
        if(_is_truncate, _truncate._seq, _seq) as _seq,
        if(_is_truncate, _truncate._ts, _ts) as _ts,
        if(_is_truncate, _truncate._event_id, _event_id) as _event_id,
        _unset,
        _is_new and not _is_truncate as _is_new,
        _is_truncate or _op not in ('I', 'U', 'B', 'S') as _is_end
    from closed_events
),

repeated_events as (
    select
        *,
        coalesce(
            lag(struct(_seq, _event_id, _is_end)) over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _is_new, _op) = struct(_seq, _event_id, _is_end),
            false
        ) as _is_repeated
    from timed_events
),

neighboring_events as (
    select
        * except (_is_repeated),
        lead(_seq) over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _is_new, _op) as __cdc_next_seq,
        lag(struct(_seq, _op, _is_end, _values)) over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _is_new, _op) as __cdc_previous
    from repeated_events
    where not _is_repeated
),

marked_events as (
    select
        * except (_values),
        if(_is_end or _op = 'B', null, _values) as _values,
        not _is_end and coalesce(__cdc_previous._is_end, true) as _is_birth,
        _is_end and not coalesce(__cdc_previous._is_end or __cdc_previous._op = 'B', true) as _is_close,
        not _is_end and _op <> 'B' as _is_image,
        not _is_end and coalesce(__cdc_previous._is_end or __cdc_previous._op = 'B', true) as _is_first
    from neighboring_events
),

compared_events as (
    select
        *,
        _is_image and (_is_first or not (struct(_values.`status`) <=> struct(__cdc_previous._values.`status`))) as _is_start,
        _is_image and (_is_first or not (_values <=> __cdc_previous._values)) as _is_change
    from marked_events
),

numbered_events as (
    select
        *,
        row_number() over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _is_new, _op) as _ordinal,
        count_if(_is_start) over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _is_new, _op) as _version,
        _is_new and coalesce(_seq < max(if(_is_new, null, _seq)) over (partition by `order_id`, `line`), false) as _is_late,
        _is_new and (coalesce(_seq = __cdc_previous._seq, false) or coalesce(_seq = __cdc_next_seq, false)) as _is_tied,
        last_value(if(_is_birth, _ts, null), true)
            over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _is_new, _op) as _created
    from compared_events
),

grouped_events as (
    select
        `order_id`, `line`,
        greatest(_version, 1) as _version,
        min_by(_seq, _ordinal) filter (where _is_image) as _seq,
        min_by(_ts, _ordinal) filter (where _is_image) as _from,
        min_by(_event_id, _ordinal) filter (where _is_image) as _first_event_id,
        min_by(struct(_seq, _ts as _at), _ordinal) filter (where _is_close) as _close,
        max_by(
            struct(_seq, _ts as _at),
            _ordinal
        ) filter (where _is_change) as _change,
        min_by(_created, _ordinal) filter (where _is_image) as _created,
        max_by(_values, _ordinal) filter (where _is_image) as _values,
        struct(
            sum(if(_is_new and _is_birth, 1, 0)) as inserted,
            sum(if(_is_new and _is_change and not _is_birth, 1, 0)) as updated,
            sum(if(_is_new and _op = 'D' and _is_close, 1, 0)) as deleted,
            sum(if(_is_new and if(_op = 'D', not _is_close, _is_image and not _is_change), 1, 0)) as unchanged,
            sum(if(_is_late and _op <> 'M', 1, 0)) as late,
            sum(if(_is_tied and _op <> 'M', 1, 0)) as tied
        ) as _effects,
        sort_array(collect_list(struct(
            _seq,
            if(_op = 'I', 'U', _op) as _op,
            _event_id,
            _ts, if(_is_end, cast(array() as array<string>), _unset) as _unset,
            if(_is_end, null, struct(_values.`amount`)) as _image
        )) filter (where _op not in ('S', 'E') and (_op <> 'T' or _is_close))) as _new_events
    from numbered_events
    group by `order_id`, `line`, greatest(_version, 1)
),

remembered_events as (
    select
        * except (_new_events),
        _new_events as _events
    from grouped_events
),

versions as (
    select
        `order_id`, `line`,
        _values.`status`,
        _values.`amount`,
        _seq,
        coalesce(_close._seq, lead(_seq) over (partition by `order_id`, `line` order by _version)) as _seq_end,
        _created as _cdc_created_at,
        _change._seq as _cdc_seq,
        if(size(_events) = 1 and _events[0]._op = 'U' and size(_events[0]._unset) = 0, null, _events) as _events,
        _effects,
        if(
            _seq is null,
            null,
            md5(to_json(struct(`order_id` as key_1, `line` as key_2, _seq, _first_event_id as _first_event_id), map('timeZone', 'UTC')))
        ) as dbt_scd_id,
        _change._at as dbt_updated_at,
        _from as dbt_valid_from,
        coalesce(_close._at, lead(_from) over (partition by `order_id`, `line` order by _version)) as dbt_valid_to,
        _first_event_id as _event_id,
        lead(_version) over (partition by `order_id`, `line` order by _version) is null as _cdc_is_latest
    from remembered_events
),


changes as (
    select
        case
            when versions.dbt_scd_id is null and known.dbt_scd_id is null then 'tombstone'
            when known.dbt_scd_id is null then 'insert'
            when versions.dbt_scd_id is null then 'delete'
            else 'update'
        end as dbt_change_type,
        coalesce(versions.`order_id`, known.`order_id`) as `order_id`,
        coalesce(versions.`line`, known.`line`) as `line`,
        versions.`status`,
        versions.`amount`,
        versions.`_seq`,
        versions.`_seq_end`,
        versions.`_cdc_created_at`,
        versions.`_cdc_seq`,
        versions.`_events`,
        coalesce(versions.`dbt_scd_id`, known.`dbt_scd_id`) as `dbt_scd_id`,
        versions.`dbt_updated_at`,
        versions.`dbt_valid_from`,
        versions.`dbt_valid_to`,
        versions.`_event_id`,
        versions.`_cdc_is_latest`,
        known._cdc_is_latest as _was_latest,
        known.dbt_scd_id is not null and known._seq_end is null as _was_open,
        versions.dbt_scd_id is not null and versions._seq_end is null as _is_open,
        not (struct(versions.`order_id`, versions.`line`, versions.`status`, versions.`amount`, versions.`_seq_end`, versions.`_cdc_created_at`, versions.`_cdc_seq`, versions.`dbt_updated_at`) <=> struct(known.`order_id`, known.`line`, known.`status`, known.`amount`, known.`_seq_end`, known.`_cdc_created_at`, known.`_cdc_seq`, known.`dbt_updated_at`)) as _is_visible,
        versions._effects
    from versions
    full outer join known_versions as known
        on
            versions.dbt_scd_id = known.dbt_scd_id
            and versions.`order_id` <=> known.`order_id` and versions.`line` <=> known.`line`
    where not (struct(versions.`order_id`, versions.`line`, versions.`status`, versions.`amount`, versions.`_seq`, versions.`_seq_end`, versions.`_cdc_created_at`, versions.`_cdc_seq`, versions.`_events`, versions.`dbt_scd_id`, versions.`dbt_updated_at`, versions.`dbt_valid_from`, versions.`dbt_valid_to`, versions.`_event_id`, versions.`_cdc_is_latest`) <=> struct(known.`order_id`, known.`line`, known.`status`, known.`amount`, known.`_seq`, known.`_seq_end`, known.`_cdc_created_at`, known.`_cdc_seq`, known.`_events`, known.`dbt_scd_id`, known.`dbt_updated_at`, known.`dbt_valid_from`, known.`dbt_valid_to`, known.`_event_id`, known.`_cdc_is_latest`))
)

select
    *,case
        when _is_open and _is_visible then 'U'
        when _was_open and not max(_is_open) over (partition by `order_id`, `line`) then 'D'
    end as _current_op,
    max(_was_open) over (partition by `order_id`, `line`) as _is_known
from changes;

-- create history_flagged_tombstones
with ends as (
            select
                `order_id`, `line`,
                explode(_events) as _end
            from step_changes
            where dbt_change_type = 'tombstone'
        )

        select
            `order_id`, `line`,
            _end._op,
            _end._seq,
            _end._ts,
            _end._event_id
        from ends
        union
        select
            if(true, null, `order_id`) as `order_id`,
            if(true, null, `line`) as `line`,
            _op,
            _seq,
            _ts, _event_id
        from step_events
        where _op = 'T';

-- add_tombstones
insert into app.history_flagged_tombstones
        select found.*
        from (with ends as (
            select
                `order_id`, `line`,
                explode(_events) as _end
            from step_changes
            where dbt_change_type = 'tombstone'
        )

        select
            `order_id`, `line`,
            _end._op,
            _end._seq,
            _end._ts,
            _end._event_id
        from ends
        union
        select
            if(true, null, `order_id`) as `order_id`,
            if(true, null, `line`) as `line`,
            _op,
            _seq,
            _ts, _event_id
        from step_events
        where _op = 'T') as found
        left anti join app.history_flagged_tombstones as known
            on
                known.`order_id` <=> found.`order_id` and known.`line` <=> found.`line`
                and known._event_id = found._event_id;

-- rows to append, or to put in place of others
select `order_id`, `line`, `status`, `amount`, `_seq`, `_seq_end`, `_cdc_created_at`, `_cdc_seq`, `_events`, `dbt_scd_id`, `dbt_updated_at`, `dbt_valid_from`, `dbt_valid_to`, `_event_id`, `_cdc_is_latest` from step_changes where dbt_change_type in ('insert', 'update');

-- merge
merge into app.history_flagged as DBT_INTERNAL_DEST
using step_changes as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.dbt_scd_id = DBT_INTERNAL_SOURCE.dbt_scd_id
    and DBT_INTERNAL_SOURCE.dbt_change_type <> 'tombstone'
    and true
    and DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
when matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'delete' then delete
when matched then update set `order_id` = DBT_INTERNAL_SOURCE.`order_id`, `line` = DBT_INTERNAL_SOURCE.`line`, `status` = DBT_INTERNAL_SOURCE.`status`, `amount` = DBT_INTERNAL_SOURCE.`amount`, `_seq` = DBT_INTERNAL_SOURCE.`_seq`, `_seq_end` = DBT_INTERNAL_SOURCE.`_seq_end`, `_cdc_created_at` = DBT_INTERNAL_SOURCE.`_cdc_created_at`, `_cdc_seq` = DBT_INTERNAL_SOURCE.`_cdc_seq`, `_events` = DBT_INTERNAL_SOURCE.`_events`, `dbt_scd_id` = DBT_INTERNAL_SOURCE.`dbt_scd_id`, `dbt_updated_at` = DBT_INTERNAL_SOURCE.`dbt_updated_at`, `dbt_valid_from` = DBT_INTERNAL_SOURCE.`dbt_valid_from`, `dbt_valid_to` = DBT_INTERNAL_SOURCE.`dbt_valid_to`, `_event_id` = DBT_INTERNAL_SOURCE.`_event_id`, `_cdc_is_latest` = DBT_INTERNAL_SOURCE.`_cdc_is_latest`
when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert' then insert (`order_id`, `line`, `status`, `amount`, `_seq`, `_seq_end`, `_cdc_created_at`, `_cdc_seq`, `_events`, `dbt_scd_id`, `dbt_updated_at`, `dbt_valid_from`, `dbt_valid_to`, `_event_id`, `_cdc_is_latest`) values (DBT_INTERNAL_SOURCE.`order_id`, DBT_INTERNAL_SOURCE.`line`, DBT_INTERNAL_SOURCE.`status`, DBT_INTERNAL_SOURCE.`amount`, DBT_INTERNAL_SOURCE.`_seq`, DBT_INTERNAL_SOURCE.`_seq_end`, DBT_INTERNAL_SOURCE.`_cdc_created_at`, DBT_INTERNAL_SOURCE.`_cdc_seq`, DBT_INTERNAL_SOURCE.`_events`, DBT_INTERNAL_SOURCE.`dbt_scd_id`, DBT_INTERNAL_SOURCE.`dbt_updated_at`, DBT_INTERNAL_SOURCE.`dbt_valid_from`, DBT_INTERNAL_SOURCE.`dbt_valid_to`, DBT_INTERNAL_SOURCE.`_event_id`, DBT_INTERNAL_SOURCE.`_cdc_is_latest`);
