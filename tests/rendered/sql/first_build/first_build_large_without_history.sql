with new_events as (
    with arrived_events as (
        select
            *,
            false as _is_move
        from (select * from app.events_flagged_images) as source_events
        where _arrived <= 9
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

sole_events as (
    select /*+ broadcast(folded_keys) */ new_events.*
    from new_events
    left anti join cdc_folded_keys_1 as folded_keys on new_events.`sku` <=> folded_keys.`sku`
    where _op in ('I', 'U') and coalesce(size(_unset) = 0, false)
),

events as (
    select /*+ broadcast(folded_keys) */ new_events.*
    from new_events
    left semi join cdc_folded_keys_1 as folded_keys on new_events.`sku` <=> folded_keys.`sku`
    where _op <> 'T'
),



timed_events as (
    select
        *,
        _op not in ('I', 'U', 'B', 'S') as _is_end
    from events
),

repeated_events as (
    select
        *,
        coalesce(
            lag(struct(_seq, _event_id, _is_end)) over (partition by `sku` order by _seq, _is_end, _event_id, _op) = struct(_seq, _event_id, _is_end),
            false
        ) as _is_repeated
    from timed_events
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

followed_lives as (
    select
        *,
        dbt_scd_id is not null and _seq_end is null as _is_living,
        max(array_max(filter(_events, event -> event._op in ('D', 'M')))) over (partition by `sku`) as _end,
        row_number() over (partition by `sku` order by _seq desc nulls last) as _latest
    from versions
),

last_lives as (
    select *
    from followed_lives
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
        if(_is_living, _cdc_seq, _end._seq) as _cdc_seq,
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
)

select `sku`, `price`, `listed_on`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, `_cdc_deleted_at`, `_events`, `_event_id`
from lives
where _op = 'U'
