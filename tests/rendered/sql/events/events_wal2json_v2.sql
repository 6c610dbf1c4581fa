with raw_events as (
    select
        *,
        cast(`value` as string) as __cdc_payload,
        concat(_file, ':', _row) as __cdc_origin,
        cast(_batch as bigint) as __cdc_arrived,
        _problem as __cdc_raw_problem
    from raw.wal2json_v2
    where ((_table = 'wal2json_v2'))
),

read_events as (
    with messages as (
        select
            *,
            _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
        from (
            select
                *,
                from_json(__cdc_payload, 'action string, timestamp string, lsn string, columns array<struct<name: string, value: variant>>, identity array<struct<name: string, value: variant>>, schema string, table string, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
            from raw_events
        ) as parsed_events
    ),

    checked_messages as (
        select
            *,
            try_cast(_message.timestamp as timestamp) as __cdc_committed_at,
            case when _message.lsn rlike '^[0-9a-fA-F]{1,8}/[0-9a-fA-F]{1,8}$' then try_cast(conv(concat(substring_index(_message.lsn, '/', 1), lpad(substring_index(_message.lsn, '/', -1), 8, '0')), 16, 10) as bigint) end as __cdc_lsn,
            size(array_except(_message.columns.name, array(null))) = size(_message.columns.name) as __cdc_columns_are_unique,
            size(array_except(_message.identity.name, array(null))) = size(_message.identity.name) as __cdc_keys_are_unique
        from messages
    )

    select
        *,
        case
            when _message.action in ('I', 'U', 'D', 'T') then _message.action
            when _message.action in ('B', 'C', 'M') then 'M'
        end as __cdc_operation,
        case when __cdc_columns_are_unique then map_from_arrays(_message.columns.name, _message.columns.value) end as __cdc_image,
        case when __cdc_keys_are_unique then map_from_arrays(_message.identity.name, _message.identity.value) end as __cdc_before,
        case when __cdc_committed_at is not null and __cdc_lsn is not null then struct(__cdc_committed_at as committed_at, __cdc_lsn as lsn) end as __cdc_seq,
        __cdc_committed_at as __cdc_ts,
        case
            when __cdc_is_unreadable then 'unreadable payload'
            when _message.action is null then 'no operation'
            when _message.action not in ('I', 'U', 'D', 'T', 'B', 'C', 'M') then concat('unknown operation ', _message.action)
            when _message.action in ('I', 'U', 'D') and not __cdc_columns_are_unique then 'a column is named twice'
            when _message.action in ('U', 'D') and not __cdc_keys_are_unique then 'a key column is named twice'
        end as __cdc_problem,
        case when nullif(_message.table, '') is not null then concat_ws('.', _message.schema, _message.table) end as __cdc_table
    from checked_messages
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
            struct(cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'name'), false) then _cdc_image['name'] else _cdc_before['name'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'seen_at'), false) then _cdc_image['seen_at'] else _cdc_before['seen_at'] end as string), case when _cdc_operation = 'U' and coalesce(map_contains_key(_cdc_before, 'id'), false) and (cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string)) then cast(_cdc_before['id'] as string) end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_name`, `__cdc_given_seen_at`, `__cdc_given_old id`
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
        `__cdc_given_name`,
        `__cdc_given_seen_at`,
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `name`,
        `seen_at`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_id` as int), try_cast(`__cdc_given_old id` as int), `__cdc_given_name`, case when substr(`__cdc_given_seen_at`, 5, 1) = '-' and length(`__cdc_given_seen_at`) >= 8 and not (locate('.', `__cdc_given_seen_at`) between 1 and length(`__cdc_given_seen_at`) - 7 and `__cdc_given_seen_at` rlike '[.][0-9]{6}[0-9]*[1-9]') then try_cast(`__cdc_given_seen_at` as timestamp) end, case when _cdc_operation in ('I', 'U') then array_except(array(case when not coalesce(map_contains_key(_cdc_image, 'name'), false) and not coalesce(map_contains_key(_cdc_before, 'name'), false) then 'name' end, case when not coalesce(map_contains_key(_cdc_image, 'seen_at'), false) and not coalesce(map_contains_key(_cdc_before, 'seen_at'), false) then 'seen_at' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `name`, `seen_at`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_id` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'id')) then 'id' end, `__cdc_given_id`, case when `__cdc_given_name` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'name')) then 'name' end, `__cdc_given_name`, case when `__cdc_given_seen_at` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'seen_at')) then 'seen_at' end, `__cdc_given_seen_at`, cast(`_old_id` as bigint)) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when _arrived is null then 'no arrival' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is not null then concat('column id: ', left(cast(`__cdc_given_id` as string), 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `seen_at` is null and cast(`__cdc_given_seen_at` as string) is not null then concat('column seen_at: ', left(cast(`__cdc_given_seen_at` as string), 100), ' is not a timestamp') end, case when _op in ('I', 'U', 'D') and if(length(`__cdc_given_name`) between 16 and 25, if(`__cdc_given_name` rlike '^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$', length(ltrim('0', regexp_replace(`__cdc_given_name`, '[-.]|E.*', ''))) between 14 and 17 and replace(_payload, '.', '') rlike concat(left(ltrim('0', regexp_replace(`__cdc_given_name`, '[-.]|E.*', '')), 13), if(contains(`__cdc_given_name`, 'E'), '', '(?=[0-9]{20}|[0-9]+[eE])'), '[0-9]{4,}[1-9]'), false), false) then 'column name: its number has more digits than can be read' end), '') as _reason
        from typed_events
    ) as typed_events
)

select
    `id`,
    `name`,
    `seen_at`,
    _op,
    _seq,
    _ts,
    _event_id,
    _unset,
    `_old_id`,
    _arrived
from identified_events
where _reason is null
