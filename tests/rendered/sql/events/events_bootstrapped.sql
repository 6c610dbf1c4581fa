with raw_events as (
    select
        *,
        cast(`value` as string) as __cdc_payload,
        concat(_file, ':', _row) as __cdc_origin,
        cast(_batch as bigint) as __cdc_arrived,
        _problem as __cdc_raw_problem
    from raw.bootstrapped
    where ((_table = 'bootstrapped'))
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
            struct(cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'name'), false) then _cdc_image['name'] else _cdc_before['name'] end as string), case when _cdc_operation = 'U' and coalesce(map_contains_key(_cdc_before, 'id'), false) and (cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string)) then cast(_cdc_before['id'] as string) end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_name`, `__cdc_given_old id`
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
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `name`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_id` as int), try_cast(`__cdc_given_old id` as int), `__cdc_given_name`, case when _cdc_operation in ('I', 'U') then array_except(array(case when not coalesce(map_contains_key(_cdc_image, 'name'), false) and not coalesce(map_contains_key(_cdc_before, 'name'), false) then 'name' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `name`, _unset
),

stream_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_id` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'id')) then 'id' end, `__cdc_given_id`, case when `__cdc_given_name` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'name')) then 'name' end, `__cdc_given_name`, cast(`_old_id` as bigint)) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when _arrived is null then 'no arrival' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is not null then concat('column id: ', left(cast(`__cdc_given_id` as string), 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and if(length(`__cdc_given_name`) between 16 and 25, if(`__cdc_given_name` rlike '^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$', length(ltrim('0', regexp_replace(`__cdc_given_name`, '[-.]|E.*', ''))) between 14 and 17 and replace(_payload, '.', '') rlike concat(left(ltrim('0', regexp_replace(`__cdc_given_name`, '[-.]|E.*', '')), 13), if(contains(`__cdc_given_name`, 'E'), '', '(?=[0-9]{20}|[0-9]+[eE])'), '[0-9]{4,}[1-9]'), false), false) then 'column name: its number has more digits than can be read' end), '') as _reason
        from typed_events
    ) as typed_events
),

snapshot_position as (
    select
        if(
            count(*) = 1 and max(_cdc_declared) = '["raw.bootstrapped", ["timestamp \'2026-01-31 12:00:00Z\'", 0]]',
            max(_cdc_position),
            raise_error('cdc: app.cdc_bootstrap__raw_bootstrapped, the snapshot that raw.bootstrapped starts from, is not complete, or was taken at another position than the declared one. If it is not complete, run cdc_bootstrap again. Else declare the position that it was taken at; or, to start from another snapshot, drop it and what was built of it, and run cdc_bootstrap.')
        ) as __cdc_position
    from app.cdc_bootstrap__raw_bootstrapped
    where _cdc_part = 'position'
),

placed_events as (
    select /*+ broadcast(snapshot_position) */
        stream_events.*,
        coalesce(stream_events._seq <= snapshot_position.__cdc_position, false) as __cdc_is_covered
    from stream_events
    cross join snapshot_position
),

snapshot_events as (
    with raw_events as (
        select raw_rows.*
        from (select null as `id`, null as `name`) as absent_columns
        cross join lateral (
            select
                *,
                `id` as `__cdc_raw_id`,
                `name` as `__cdc_raw_name`,
                to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")) as __cdc_payload,
                concat('snapshot of raw.bootstrapped, row ', _cdc_row) as __cdc_origin,
                cast(-4611686018427387904 as bigint) as __cdc_arrived,
                cast(null as string) as __cdc_raw_problem
            from app.cdc_bootstrap__raw_bootstrapped
            where ((_cdc_part = 'row'))
        ) as raw_rows
    ),

    read_events as (

        select
            *,
            case
                when cast('I' as string) in ('I', 'U', 'D', 'T') then cast('I' as string)
                when upper(trim(cast('I' as string))) in ('I', 'U', 'D', 'T') then upper(trim(cast('I' as string)))
                when upper(trim(cast('I' as string))) in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE') then left(upper(trim(cast('I' as string))), 1)
            end as __cdc_operation,
            _cdc_position as __cdc_seq,
            if(typeof(_cdc_time) = 'string', raise_error('cdc: raw.bootstrapped: `event_time` (_cdc_time) is text and no time. Write `try_cast(<expression> as timestamp)`.'), _cdc_time) as __cdc_ts,
            case
                when cast('I' as string) in ('I', 'U', 'D', 'T') then null
                when 'I' is null then 'no operation'
                when upper(trim(cast('I' as string))) not in ('I', 'U', 'D', 'T', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
                    then concat('unknown operation ', 'I')
            end as __cdc_problem
        from raw_events
    ),

    decoded_events as (
        select
            __cdc_payload as _payload,
            __cdc_origin as _origin,
            __cdc_arrived as _arrived,
            __cdc_raw_problem as _cdc_raw_problem,
            __cdc_operation as _cdc_operation,
            struct(`__cdc_raw_id`, `__cdc_raw_name`) as __cdc_given,
            __cdc_seq as _seq,
            __cdc_ts as _ts,
            __cdc_problem as _cdc_problem
        from read_events
    ),

    given_events as (
        select *
        from (
            select
                *
            from decoded_events
            where
                _cdc_operation is distinct from 'M'
        ) as own_events
        lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_name`
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
            `id`,
            `name`,
            _unset
        from (
            select
                *,
                struct(if(typeof(`__cdc_given_id`) rlike '^(float|double|decimal|timestamp)', try_cast(case when ((locate('.', cast(`__cdc_given_id` as string)) = 0 or length(cast(`__cdc_given_id` as string)) - locate('.', cast(`__cdc_given_id` as string)) <= 0) and not contains(cast(`__cdc_given_id` as string), 'E') and not contains(cast(`__cdc_given_id` as string), 'e')) or length(rtrim('0', regexp_extract(cast(`__cdc_given_id` as string), '[.]([0-9]*)', 1))) - coalesce(try_cast(nullif(regexp_extract(cast(`__cdc_given_id` as string), '[eE]([-+]?[0-9]+)', 1), '') as int), 0) <= 0 or cast(`__cdc_given_id` as string) rlike '^ *[-+]?[0.]+[eE]' then try_cast(cast(`__cdc_given_id` as string) as decimal(20,0)) end as int), try_cast(`__cdc_given_id` as int)), try_cast(`__cdc_given_name` as string), cast(array() as array<string>)) as __cdc_typed
            from given_events
        ) as given_events
        lateral view outer inline(array(__cdc_typed)) typed as `id`, `name`, _unset
    ),

    identified_events as (
        select
            *,
            xxhash64(_op, _seq, case when `__cdc_given_id` is not null then 'id' end, cast(`id` as bigint), case when `__cdc_given_name` is not null then 'name' end, `name`, cast(`_old_id` as bigint)) as _event_id
        from (
            select
                *,
                cast(null as int) as `_old_id`,
                nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when _arrived is null then 'no arrival' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is not null then concat('column id: ', left(cast(`__cdc_given_id` as string), 100), ' is not a int') end), '') as _reason
            from typed_events
        ) as typed_events
    )

    select `_payload`, `_origin`, `_arrived`, `_reason`, `_event_id`, `_op`, `_seq`, `_ts`, `_unset`, `id`, `name`, `_old_id`
    from identified_events
),

identified_events as (
    select `_payload`, `_origin`, `_arrived`, `_reason`, `_event_id`, `_op`, `_seq`, `_ts`, `_unset`, `id`, `name`, `_old_id`
    from placed_events
    where not __cdc_is_covered
    union all
    select `_payload`, `_origin`, `_arrived`, `_reason`, `_event_id`, `_op`, `_seq`, `_ts`, `_unset`, `id`, `name`, `_old_id`
    from snapshot_events
)

select
    `id`,
    `name`,
    _op,
    _seq,
    _ts,
    _event_id,
    _unset,
    `_old_id`,
    _arrived
from identified_events
where _reason is null
