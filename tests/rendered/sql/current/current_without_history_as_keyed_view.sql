with new_events as (
    with arrived_events as (
        select
            *,
            false as _is_move
        from (select * from app.events_flagged_images) as source_events
        where true
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
    from arrived_events
),

events as (
    select * from new_events
    where _op <> 'T'
),

truncates as (
    select distinct
        _seq,

        _event_id
    from new_events
    where _op = 'T'
),



truncate_positions as (
    select collect_list(struct(_seq, _event_id)) as _positions
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
        `sku`,
        _values,
        if(_is_truncate, 'T', _op) as _op,
        if(_is_truncate, _truncate._seq, _seq) as _seq,
        if(_is_truncate, _truncate._event_id, _event_id) as _event_id,
        _unset,
        _is_truncate or _op not in ('I', 'U', 'B', 'S') as _is_end
    from closed_events
),

placed_events as (
    select
        *,
        _op in ('I', 'U') and coalesce(size(_unset) = 0, false)
        and lag(true) over (partition by `sku` order by _seq, _is_end, _event_id, _op) is null
        and lead(true) over (partition by `sku` order by _seq, _is_end, _event_id, _op) is null as __cdc_is_sole
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
            lag(struct(_seq, _event_id, _is_end)) over (partition by `sku` order by _seq, _is_end, _event_id, _op) = struct(_seq, _event_id, _is_end),
            false
        ) as _is_repeated
    from other_events
),

neighboring_events as (
    select
        * except (_is_repeated),
        lag(struct(_seq, _op, _is_end)) over (partition by `sku` order by _seq, _is_end, _event_id, _op) as __cdc_previous
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
        if(_is_end or _op = 'B', null, struct(last_value(case when not _is_end and not array_contains(_unset, 'price') then named_struct('v', _values.`price`) when _is_end or _is_birth then named_struct('v', if(true, null, _values.`price`)) end, true) over (partition by `sku` order by _seq, _is_end, _event_id, _op).v as `price`, last_value(case when not _is_end and not array_contains(_unset, 'listed_on') then named_struct('v', _values.`listed_on`) when _is_end or _is_birth then named_struct('v', if(true, null, _values.`listed_on`)) end, true) over (partition by `sku` order by _seq, _is_end, _event_id, _op).v as `listed_on`)) as _values
    from marked_events
),

compared_events as (
    select
        *,
        _is_image and (_is_first or not true) as _is_start,
        _is_image and (_is_first or not (_values <=> lag(_values) over (partition by `sku` order by _seq, _is_end, _event_id, _op))) as _is_change
    from resolved_events
),

numbered_events as (
    select
        *,
        row_number() over (partition by `sku` order by _seq, _is_end, _event_id, _op) as _ordinal,
        count_if(_is_start) over (partition by `sku` order by _seq, _is_end, _event_id, _op) as _version,
        last_value(if(_is_birth, _seq, null), true)
            over (partition by `sku` order by _seq, _is_end, _event_id, _op) as _created
    from compared_events
),

grouped_events as (
    select
        `sku`,
        greatest(_version, 1) as _version,
        min_by(_seq, _ordinal) filter (where _is_image) as _seq,
        min_by(_seq, _ordinal) filter (where _is_image) as _from,
        min_by(_event_id, _ordinal) filter (where _is_image) as _first_event_id,
        min_by(struct(_seq, _seq as _at), _ordinal) filter (where _is_close) as _close,
        max_by(
            struct(_seq, _seq as _at),
            _ordinal
        ) filter (where _is_change) as _change,
        min_by(_created, _ordinal) filter (where _is_image) as _created,
        max_by(_values, _ordinal) filter (where _is_image) as _values,
        sort_array(collect_list(struct(
            _seq,
            if(_op = 'I', 'U', _op) as _op,
            _event_id,
            if(_is_end, cast(array() as array<string>), _unset) as _unset,
            if(_is_end, null, _values) as _image
        )) filter (where _op not in ('S', 'E') and (_op <> 'T' or _is_close))) as _new_events
    from numbered_events
    group by `sku`, greatest(_version, 1)
),

remembered_events as (
    select
        * except (_new_events),
        _new_events as _events
    from grouped_events
),

versions as (
    select
        `sku`,
        _values.`price`,
        _values.`listed_on`,
        _seq,
        coalesce(_close._seq, lead(_seq) over (partition by `sku` order by _version)) as _seq_end,
        _created as _cdc_created_at,
        _change._seq as _cdc_seq,
        _events,
        if(
            _seq is null,
            null,
            md5(to_json(struct(`sku` as key_1, _seq, _first_event_id as _first_event_id), map('timeZone', 'UTC')))
        ) as dbt_scd_id,
        _change._at as dbt_updated_at,
        _from as dbt_valid_from,
        coalesce(_close._at, lead(_from) over (partition by `sku` order by _version)) as dbt_valid_to,
        _first_event_id as _event_id,
        lead(_version) over (partition by `sku` order by _version) is null as _cdc_is_latest
    from remembered_events
),

truncate_ends as (
    select
        max(_seq) as _seq,

        max_by(_event_id, _seq) as _event_id
    from truncates
),

followed_lives as (
    select
        *,
        dbt_scd_id is not null and _seq_end is null as _is_living,
        max(array_max(filter(_events, event -> event._op in ('D', 'M')))) over (partition by `sku`) as _end,
        row_number() over (partition by `sku` order by _seq desc nulls last) as _latest
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
        `sku`,
        if(_is_living, `price`, null) as `price`,
        if(_is_living, `listed_on`, null) as `listed_on`,
        if(_is_living, _cdc_created_at, null) as _cdc_created_at,
        if(_is_living, dbt_updated_at, _end._seq) as _cdc_updated_at,
        if(_is_living, _cdc_seq, coalesce(_end._seq, _truncated)) as _cdc_seq,
        if(_is_living, null, _end._seq) as _cdc_deleted_at,if(_is_living and size(_kept) = 1 and size(_kept[0]._unset) = 0, null, _kept) as _events,
        if(_is_living, _event_id, null) as _event_id,
        if(_is_living or _end is not null, 'U', 'D') as _op
    from kept_lives
    union all
    select
        `sku`,
        _values.`price`,
        _values.`listed_on`,
        _seq as _cdc_created_at,
        _seq as _cdc_updated_at,
        _seq as _cdc_seq,
        if(true, null, _seq) as _cdc_deleted_at,
        if(true, null, array(struct(_seq, _op, _event_id, _unset, _values as _image))) as _events,
        _event_id,
        'U' as _op
    from sole_events
    union all
    select
        null as `sku`,
        null as `price`,
        null as `listed_on`,
        null as _cdc_created_at,
        _seq as _cdc_updated_at,
        _seq as _cdc_seq,
        _seq as _cdc_deleted_at,
        array(struct(
            _seq,
            'T' as _op,
            _event_id,

            cast(array() as array<string>) as _unset,
            null as _image
        )) as _events,
        null as _event_id,
        'U' as _op
    from truncate_ends
    where _seq is not null
)

select `sku`, `price`, `listed_on`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, `_cdc_deleted_at`, `_events`, `_event_id`
from lives
where _op = 'U'
