-- step events
with arrived_events as (
    select
        *,
        explode(if(`_old_id` is null, array(false), array(false, true))) as _is_move
    from (select * from app.events_maxwell) as source_events
    where _arrived > 8 and _arrived <= 9
)

select
    if(_is_move, `_old_id`, `id`) as `id`,
    struct(
        `placed_on` as `placed_on`,
        `tags` as `tags`
    ) as _values,
    if(_is_move, 'M', _op) as _op,
    _seq,
    _ts,
    _event_id,
    _unset
from arrived_events;

-- step known
with touched_keys as (
    select
        `id`,
        min(_seq) as _first_new
    from step_events
    where _op <> 'T'
    group by `id`
)

select
    known.`id`, known.`placed_on`, known.`tags`, known.`_cdc_created_at`, known.`_cdc_updated_at`, known.`_cdc_seq`, known.`_cdc_deleted_at`, known.`_event_id`, known._events,
    (known.`id` is null) as _is_truncate,
    (known.`id` is null) as _is_in_order
from app.current_without_history_partitioned as known
left join touched_keys on known.`id` <=> touched_keys.`id`
where
    (true or known.`id` is null)
    and (touched_keys._first_new is not null or (known.`id` is null))
union all
select
    known.`id`, known.`placed_on`, known.`tags`, known.`_cdc_created_at`, known.`_cdc_updated_at`, known.`_cdc_seq`, known.`_cdc_deleted_at`, known.`_event_id`, known._events,
    false as _is_truncate,
    false as _is_in_order
from app.current_without_history_partitioned as known
cross join (select max(_seq) as _last from step_events where _op = 'T') as last_truncate
left anti join touched_keys on known.`id` <=> touched_keys.`id`
where
    not (known.`id` is null)
    and exists(coalesce(known._events, array(struct(known._cdc_seq as _seq, 'U' as _op, known._event_id, known._cdc_updated_at as _ts, cast(array() as array<string>) as _unset, struct(known.`placed_on`, known.`tags`) as _image))), event -> event._seq <= _last);

-- step changes
with known_lives as (
    select * from step_known
),

new_events as (
    select
        *,
        true as _is_new
    from step_events
    where _op <> 'T'
),

state_events as (
    select
        `id`,
        struct(`placed_on`, `tags`) as _values,
        if(_cdc_deleted_at is null, 'S', 'E') as _op,
        _cdc_seq as _seq,
        _cdc_updated_at as _ts,
        coalesce(_event_id, element_at(_events, -1)._event_id) as _event_id,
        cast(array() as array<string>) as _unset,
        false as _is_new,
        struct(
            _cdc_created_at,
            _cdc_seq,
            _cdc_updated_at as dbt_updated_at,
            cast(null as string) as dbt_scd_id,
            _event_id,
            _events,
            struct(_cdc_seq as _seq, 'U' as _op, _event_id, _cdc_updated_at as _ts, cast(array() as array<string>) as _unset, struct(`placed_on`, `tags`) as _image) as _sole_event
        ) as _state
    from known_lives
    where _is_in_order and not _is_truncate
),

unfolded_lives as (
    select
        *,array_max(filter(_remembered, event -> event._seq = _cdc_seq and event._op = 'U')) as _cdc_change,
        explode(_remembered) as _event
    from (
        select
            *,
            coalesce(_events, array(struct(_cdc_seq as _seq, 'U' as _op, _event_id, _cdc_updated_at as _ts, cast(array() as array<string>) as _unset, struct(`placed_on`, `tags`) as _image))) as _remembered
        from known_lives
        where not _is_in_order and not _is_truncate
    ) as remembering_lives
),

known_events as (
    select
        `id`,
        coalesce(_event._image, if(_event._seq > _cdc_seq or _event <=> _cdc_change, struct(`placed_on`, `tags`), null)) as _values,
        _event._op,
        _event._seq,
        _event._ts,
        _event._event_id,
        _event._unset,
        false as _is_new
    from unfolded_lives
),

truncates as (
    select
        _seq,
        _ts,
        _event_id
    from step_events
    where _op = 'T'
    union
    select
        element_at(_events, -1)._seq,
        element_at(_events, -1)._ts,
        element_at(_events, -1)._event_id
    from known_lives
    where _is_truncate
),

events as (
    select /*+ coalesce(1) */ *
    from (
        select * from state_events
        union all
        select *, null as _state from new_events
        union all
        select *, null as _state from known_events
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
        `id`,
        _values,
        if(_is_truncate, 'T', _op) as _op,
        if(_is_truncate, _truncate._seq, _seq) as _seq,
        if(_is_truncate, _truncate._ts, _ts) as _ts,
        if(_is_truncate, _truncate._event_id, _event_id) as _event_id,
        _unset,
        _is_new and not _is_truncate as _is_new,
        _state,
        _is_truncate or _op not in ('I', 'U', 'B', 'S') as _is_end
    from closed_events
),

repeated_events as (
    select
        *,
        coalesce(
            lag(struct(_seq, _event_id, _is_end)) over (partition by `id` order by _seq, _is_end, _event_id, _is_new, _op) = struct(_seq, _event_id, _is_end),
            false
        ) as _is_repeated
    from timed_events
),

neighboring_events as (
    select
        * except (_is_repeated),
        lead(_seq) over (partition by `id` order by _seq, _is_end, _event_id, _is_new, _op) as __cdc_next_seq,
        lag(struct(_seq, _op, _is_end)) over (partition by `id` order by _seq, _is_end, _event_id, _is_new, _op) as __cdc_previous
    from repeated_events
    where not _is_repeated
),

marked_events as (
    select
        *,
        not _is_end and coalesce(__cdc_previous._is_end, true) as _is_birth,
        _is_end and not coalesce(__cdc_previous._is_end or __cdc_previous._op = 'B', true) as _is_close,
        not _is_end and _op <> 'B' as _is_image,
        not _is_end and coalesce(__cdc_previous._is_end or __cdc_previous._op = 'B', true) as _is_first
    from neighboring_events
),

resolved_events as (
    select
        * except (_values),
        if(_is_end or _op = 'B', null, struct(last_value(case when not _is_end and not array_contains(_unset, 'placed_on') then named_struct('v', _values.`placed_on`) when _is_end or _is_birth then named_struct('v', if(true, null, _values.`placed_on`)) end, true) over (partition by `id` order by _seq, _is_end, _event_id, _is_new, _op).v as `placed_on`, last_value(case when not _is_end and not array_contains(_unset, 'tags') then named_struct('v', _values.`tags`) when _is_end or _is_birth then named_struct('v', if(true, null, _values.`tags`)) end, true) over (partition by `id` order by _seq, _is_end, _event_id, _is_new, _op).v as `tags`)) as _values
    from marked_events
),

compared_events as (
    select
        *,
        _is_image and (_is_first or not true) as _is_start,
        _is_image and (_is_first or not (_values <=> lag(_values) over (partition by `id` order by _seq, _is_end, _event_id, _is_new, _op))) as _is_change
    from resolved_events
),

numbered_events as (
    select
        *,
        row_number() over (partition by `id` order by _seq, _is_end, _event_id, _is_new, _op) as _ordinal,
        count_if(_is_start) over (partition by `id` order by _seq, _is_end, _event_id, _is_new, _op) as _version,
        _is_new and coalesce(_seq < max(if(_is_new, null, _seq)) over (partition by `id`), false) as _is_late,
        _is_new and (coalesce(_seq = __cdc_previous._seq, false) or coalesce(_seq = __cdc_next_seq, false)) as _is_tied,
        last_value(if(_is_birth, coalesce(_state._cdc_created_at, _ts), null), true)
            over (partition by `id` order by _seq, _is_end, _event_id, _is_new, _op) as _created
    from compared_events
),

grouped_events as (
    select
        `id`,
        greatest(_version, 1) as _version,
        min_by(_seq, _ordinal) filter (where _is_image) as _seq,
        min_by(_ts, _ordinal) filter (where _is_image) as _from,
        min_by(_event_id, _ordinal) filter (where _is_image) as _first_event_id,
        min_by(struct(_seq, _ts as _at), _ordinal) filter (where _is_close) as _close,
        max_by(
            if(_state is null, struct(_seq, _ts as _at), struct(_state._cdc_seq as _seq, _state.dbt_updated_at as _at)),
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
        max_by(_state, _ordinal) filter (where _state is not null) as _state,
        sort_array(collect_list(struct(
            _seq,
            if(_op = 'I', 'U', _op) as _op,
            _event_id,
            _ts, if(_is_end, cast(array() as array<string>), _unset) as _unset,
            if(_is_end, null, _values) as _image
        )) filter (where _op not in ('S', 'E') and (_op <> 'T' or _is_close))) as _new_events
    from numbered_events
    group by `id`, greatest(_version, 1)
),

remembered_events as (
    select
        * except (_new_events),
        case
            when _state is null then _new_events
            when size(_new_events) = 0 then _state._events
            else concat(coalesce(_state._events, array(_state._sole_event)), _new_events)
        end as _events
    from grouped_events
),

versions as (
    select
        `id`,
        _values.`placed_on`,
        _values.`tags`,
        _seq,
        coalesce(_close._seq, lead(_seq) over (partition by `id` order by _version)) as _seq_end,
        _created as _cdc_created_at,
        _change._seq as _cdc_seq,
        _events,
        _effects,
        if(
            _seq is null,
            null,
            coalesce(_state.dbt_scd_id, md5(to_json(struct(`id` as key_1, _seq, _first_event_id as _first_event_id), map('timeZone', 'UTC'))))
        ) as dbt_scd_id,
        _change._at as dbt_updated_at,
        _from as dbt_valid_from,
        coalesce(_close._at, lead(_from) over (partition by `id` order by _version)) as dbt_valid_to,
        coalesce(_state._event_id, _first_event_id) as _event_id,
        lead(_version) over (partition by `id` order by _version) is null as _cdc_is_latest
    from remembered_events
),

truncate_ends as (
    select
        max(_seq) as _seq,
        max_by(_ts, _seq) as _ts,
        max_by(_event_id, _seq) as _event_id
    from truncates
),

followed_lives as (
    select
        *,
        dbt_scd_id is not null and _seq_end is null as _is_living,
        max(array_max(filter(_events, event -> event._op in ('D', 'M')))) over (partition by `id`) as _end,
        struct(
            sum(_effects.inserted) over (partition by `id`) as inserted,
            sum(_effects.updated) over (partition by `id`) as updated,
            sum(_effects.deleted) over (partition by `id`) as deleted,
            sum(_effects.unchanged) over (partition by `id`) as unchanged,
            sum(_effects.late) over (partition by `id`) as late,
            sum(_effects.tied) over (partition by `id`) as tied
        ) as _all_effects,
        row_number() over (partition by `id` order by _seq desc nulls last) as _latest
    from versions
),

last_lives as (
    select
        followed_lives.* except (_end),
        if(truncate_ends._seq is null or _end._seq > truncate_ends._seq, _end, null) as _end,
        truncate_ends._seq as _truncated
    from followed_lives
    cross join truncate_ends
    where _latest = 1
),

kept_lives as (
    select
        *,
        if(
            _is_living,
            concat(array_compact(array(_end)), filter(_events, event -> event._op in ('I', 'U'))),
            array_compact(array(_end))
        ) as _kept
    from last_lives
),

lives as (
    select
        `id`,
        if(_is_living, `placed_on`, null) as `placed_on`,
        if(_is_living, `tags`, null) as `tags`,
        if(_is_living, _cdc_created_at, null) as _cdc_created_at,
        if(_is_living, dbt_updated_at, _end._ts) as _cdc_updated_at,
        if(_is_living, _cdc_seq, coalesce(_end._seq, _truncated)) as _cdc_seq,
        if(_is_living, null, _end._ts) as _cdc_deleted_at,if(_is_living and size(_kept) = 1 and size(_kept[0]._unset) = 0, null, _kept) as _events,
        if(_is_living, _event_id, null) as _event_id,
        _all_effects as _effects,
        if(_is_living or _end is not null, 'U', 'D') as _op
    from kept_lives
    union all
    select
        null as `id`,
        null as `placed_on`,
        null as `tags`,
        null as _cdc_created_at,
        _ts as _cdc_updated_at,
        _seq as _cdc_seq,
        _ts as _cdc_deleted_at,
        array(struct(
            _seq,
            'T' as _op,
            _event_id,
            _ts,
            cast(array() as array<string>) as _unset,
            null as _image
        )) as _events,
        null as _event_id,
        null as _effects,
        'U' as _op
    from truncate_ends
    where _seq is not null
)

select
    lives.`id`, lives.`placed_on`, lives.`tags`, lives.`_cdc_created_at`, lives.`_cdc_updated_at`, lives.`_cdc_seq`, lives.`_cdc_deleted_at`, lives.`_events`, lives.`_event_id`,
    lives._effects,
    known._cdc_seq is not null as _is_known,
    case
        when lives._op = 'D' then if(known._cdc_seq is null, null, 'D')
        when not (struct(lives.`id`, lives.`placed_on`, lives.`tags`, lives.`_cdc_created_at`, lives.`_cdc_updated_at`, lives.`_cdc_seq`, lives.`_cdc_deleted_at`, lives.`_events`, lives.`_event_id`) <=> struct(known.`id`, known.`placed_on`, known.`tags`, known.`_cdc_created_at`, known.`_cdc_updated_at`, known.`_cdc_seq`, known.`_cdc_deleted_at`, known.`_events`, known.`_event_id`)) then 'U'
    end as _current_op
from lives
left join known_lives as known on lives.`id` <=> known.`id`;

-- rows to append, or to put in place of others
select `id`, `placed_on`, `tags`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, `_cdc_deleted_at`, `_events`, `_event_id` from (select `id`, `placed_on`, `tags`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, `_cdc_deleted_at`, `_events`, `_event_id`, _current_op, _is_known from step_changes where _current_op is not null) where _current_op = 'U';

-- merge
merge into app.current_without_history_partitioned as DBT_INTERNAL_DEST
using (select `id`, `placed_on`, `tags`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, `_cdc_deleted_at`, `_events`, `_event_id`, _current_op, _is_known from step_changes where _current_op is not null) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`id` <=> DBT_INTERNAL_SOURCE.`id`
when matched and DBT_INTERNAL_SOURCE._current_op = 'D' then delete
when matched then update set `id` = DBT_INTERNAL_SOURCE.`id`, `placed_on` = DBT_INTERNAL_SOURCE.`placed_on`, `tags` = DBT_INTERNAL_SOURCE.`tags`, `_cdc_created_at` = DBT_INTERNAL_SOURCE.`_cdc_created_at`, `_cdc_updated_at` = DBT_INTERNAL_SOURCE.`_cdc_updated_at`, `_cdc_seq` = DBT_INTERNAL_SOURCE.`_cdc_seq`, `_cdc_deleted_at` = DBT_INTERNAL_SOURCE.`_cdc_deleted_at`, `_events` = DBT_INTERNAL_SOURCE.`_events`, `_event_id` = DBT_INTERNAL_SOURCE.`_event_id`
when not matched and DBT_INTERNAL_SOURCE._current_op = 'U' then insert (`id`, `placed_on`, `tags`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, `_cdc_deleted_at`, `_events`, `_event_id`) values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`placed_on`, DBT_INTERNAL_SOURCE.`tags`, DBT_INTERNAL_SOURCE.`_cdc_created_at`, DBT_INTERNAL_SOURCE.`_cdc_updated_at`, DBT_INTERNAL_SOURCE.`_cdc_seq`, DBT_INTERNAL_SOURCE.`_cdc_deleted_at`, DBT_INTERNAL_SOURCE.`_events`, DBT_INTERNAL_SOURCE.`_event_id`);
