with raw_events as (
    select
        *,
        cast(`value` as string) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(kafka_offset as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.maxwell
),

read_events as (
    with messages as (
        select
            *,
            _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
        from (
            select
                *,
                from_json(__cdc_payload, 'database string, table string, type string, ts string, xid string, xoffset string, commit string, position string, data map<string, variant>, old map<string, variant>, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
            from raw_events
        ) as parsed_events
    )

    select
        *,
        case
            when __cdc_is_unreadable then null
            when _message.type in ('insert', 'bootstrap-insert') then 'I'
            when _message.type = 'update' then 'U'
            when _message.type = 'delete' then 'D'
            when coalesce(_message.type in ('bootstrap-start', 'bootstrap-complete') or _message.type like 'table-%' or _message.type like 'database-%', false) then 'M'
        end as __cdc_operation,
        _message.data as __cdc_image,
        case _message.type when 'update' then _message.old when 'delete' then _message.data end as __cdc_before,
        case
                when try_cast(_message.ts as bigint) is not null then array(
                    try_cast(_message.ts as bigint),
                    if(_message.type = 'bootstrap-insert', 0L, 1L),
                    coalesce(try_cast(substring_index(substring_index(_message.position, ':', 1), '.', -1) as bigint), 0L),
                    coalesce(try_cast(substring_index(_message.position, ':', -1) as bigint), 0L),
                    coalesce(try_cast(_message.xid as bigint), 0L),
                    if(_message.commit = 'true', 9223372036854775807L, coalesce(try_cast(_message.xoffset as bigint), 0L))
                )
            end as __cdc_seq,
        case
            when try_multiply(try_cast(_message.ts as bigint), 1000000L) between -62135596800000000 and 253402300799999999 then
                timestamp_micros(try_multiply(try_cast(_message.ts as bigint), 1000000L))
        end as __cdc_ts,
        case
            when __cdc_is_unreadable then 'unreadable payload'
            when _message.type is null then 'no operation'
            when _message.type not in ('insert', 'bootstrap-insert', 'update', 'delete') and not coalesce(_message.type in ('bootstrap-start', 'bootstrap-complete') or _message.type like 'table-%' or _message.type like 'database-%', false)
                then concat('unknown operation ', _message.type)
            when _message.data is null then 'no row'
        end as __cdc_problem,
        case when nullif(_message.table, '') is not null then concat_ws('.', _message.database, _message.table) end as __cdc_table
    from messages
),

decoded_events as (
    select
        __cdc_payload as _payload,
        __cdc_origin as _origin,
        __cdc_arrived as _arrived,
        __cdc_raw_problem as _cdc_raw_problem,
        __cdc_operation as _cdc_operation,
        __cdc_image as _cdc_image,
        __cdc_before as _cdc_before,
        __cdc_seq as _seq,
        __cdc_ts as _ts,
        __cdc_problem as _cdc_problem
    from read_events
),

held_events as (
    select
        _payload,
        _origin,
        _arrived,
        _cdc_raw_problem,
        decoded.*
    from (
        select
            * except (_cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem),
            struct(_cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem) as __cdc_decoded
        from decoded_events
    ) as decoded_events
    lateral view outer inline(array(__cdc_decoded)) decoded as _cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem
),

given_events as (
    select *
    from (
        select
            *,
            struct(cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'placed_on'), false) then _cdc_image['placed_on'] else _cdc_before['placed_on'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'tags'), false) then _cdc_image['tags'] else _cdc_before['tags'] end as string), case when _cdc_operation = 'U' and ((coalesce(map_contains_key(_cdc_before, 'id'), false) and cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string))) then case when coalesce(map_contains_key(_cdc_before, 'id'), false) then cast(_cdc_before['id'] as string) else cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string) end end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_placed_on`, `__cdc_given_tags`, `__cdc_given_old id`
),

typed_events as (
    select
        _payload,
        _origin,
        _arrived,
        _cdc_raw_problem,
        _cdc_problem,
        _cdc_operation as _op,
        _seq,
        _ts,
        `__cdc_given_id`,
        `__cdc_given_placed_on`,
        `__cdc_given_tags`,
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `placed_on`,
        `tags`,
        _unset
    from (
        select
            *,
            struct(`__cdc_given_id`, `__cdc_given_old id`, case when substr(`__cdc_given_placed_on`, 5, 1) = '-' and length(`__cdc_given_placed_on`) >= 8 and not (locate('.', `__cdc_given_placed_on`) between 1 and length(`__cdc_given_placed_on`) - 7 and `__cdc_given_placed_on` rlike '[.][0-9]{6}[0-9]*[1-9]') and (length(`__cdc_given_placed_on`) <= 10 or try_cast(`__cdc_given_placed_on` as timestamp_ntz) = cast(try_cast(`__cdc_given_placed_on` as date) as timestamp_ntz)) then try_cast(`__cdc_given_placed_on` as date) end, cast(from_json(`__cdc_given_tags`, 'array<variant>') as array<string>), case when _cdc_operation in ('I', 'U') then array_except(array(case when not coalesce(map_contains_key(_cdc_image, 'placed_on'), false) and not coalesce(map_contains_key(_cdc_before, 'placed_on'), false) then 'placed_on' end, case when not coalesce(map_contains_key(_cdc_image, 'tags'), false) and not coalesce(map_contains_key(_cdc_before, 'tags'), false) then 'tags' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `placed_on`, `tags`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_id` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'id')) then 'id' end, `__cdc_given_id`, case when `__cdc_given_placed_on` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'placed_on')) then 'placed_on' end, `__cdc_given_placed_on`, case when `__cdc_given_tags` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'tags')) then 'tags' end, `__cdc_given_tags`, `_old_id`) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when _arrived is null then 'no arrival' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a string') end, case when _op in ('I', 'U', 'D') and `placed_on` is null and cast(`__cdc_given_placed_on` as string) is not null then concat('column placed_on: ', left(cast(`__cdc_given_placed_on` as string), 100), ' is not a date') end, case when _op in ('I', 'U', 'D') and `tags` is null and cast(`__cdc_given_tags` as string) is not null then concat('column tags: ', left(cast(`__cdc_given_tags` as string), 100), ' is not a array<string>') end, case when _op in ('I', 'U', 'D') and if(length(`__cdc_given_id`) between 16 and 25, if(`__cdc_given_id` rlike '^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$', length(ltrim('0', regexp_replace(`__cdc_given_id`, '[-.]|E.*', ''))) between 14 and 17 and replace(_payload, '.', '') rlike concat(left(ltrim('0', regexp_replace(`__cdc_given_id`, '[-.]|E.*', '')), 13), if(contains(`__cdc_given_id`, 'E'), '', '(?=[0-9]{20}|[0-9]+[eE])'), '[0-9]{4,}[1-9]'), false), false) then 'column id: its number has more digits than can be read' end), '') as _reason
        from typed_events
    ) as typed_events
)

select
    `id`,
    `placed_on`,
    `tags`,
    _op,
    _seq,
    _ts,
    _event_id,
    _unset,
    `_old_id`,
    _arrived
from identified_events
where _reason is null
