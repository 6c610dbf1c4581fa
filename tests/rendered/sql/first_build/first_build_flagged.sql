with new_events as (
    with arrived_events as (
        select
            *,
            false as _is_move
        from (select * from app.events_flagged) as source_events
        where _arrived <= 9
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
    from arrived_events
),

events as (
    select * from new_events
    where _op <> 'T'
),

truncates as (
    select distinct
        _seq,
        _ts,
        _event_id
    from new_events
    where _op = 'T'
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
        _is_truncate or _op not in ('I', 'U', 'B', 'S') as _is_end
    from closed_events
),

placed_events as (
    select
        *,
        _op in ('I', 'U') and coalesce(size(_unset) = 0, false)
        and lag(true) over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _op) is null
        and lead(true) over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _op) is null as __cdc_is_sole
    from timed_events
),

sole_events as (
    select *
    from placed_events
    where __cdc_is_sole
),

other_events as (
    select * except (__cdc_is_sole)
    from placed_events
    where not __cdc_is_sole
),

repeated_events as (
    select
        *,
        coalesce(
            lag(struct(_seq, _event_id, _is_end)) over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _op) = struct(_seq, _event_id, _is_end),
            false
        ) as _is_repeated
    from other_events
),

neighboring_events as (
    select
        * except (_is_repeated),
        lag(struct(_seq, _op, _is_end, _values)) over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _op) as __cdc_previous
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
        row_number() over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _op) as _ordinal,
        count_if(_is_start) over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _op) as _version,
        last_value(if(_is_birth, _ts, null), true)
            over (partition by `order_id`, `line` order by _seq, _is_end, _event_id, _op) as _created
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
    union all
    select
        `order_id`, `line`,
        _values.`status`,
        _values.`amount`,
        _seq,
        if(true, null, _seq) as _seq_end,
        _ts as _cdc_created_at,
        _seq as _cdc_seq,
        if(true, null, array(struct(_seq, _op, _event_id, _ts, _unset, struct(_values.`amount`) as _image))) as _events,
        md5(to_json(struct(`order_id` as key_1, `line` as key_2, _seq, _event_id as _first_event_id), map('timeZone', 'UTC'))) as dbt_scd_id,
        _ts as dbt_updated_at,
        _ts as dbt_valid_from,
        if(true, null, _ts) as dbt_valid_to,
        _event_id,
        true as _cdc_is_latest
    from sole_events
)

select `order_id`, `line`, `status`, `amount`, `_seq`, `_seq_end`, `_cdc_created_at`, `_cdc_seq`, `_events`, `dbt_scd_id`, `dbt_updated_at`, `dbt_valid_from`, `dbt_valid_to`, `_event_id`, `_cdc_is_latest`
from versions
where _seq is not null
