with raw_events as (
    select
        *,
        cast(`value` as string) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(null as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.canal
),

read_events as (
    with messages as (
        select
            *,
            _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
        from (
            select
                *,
                from_json(__cdc_payload, 'database string, table string, type string, isDdl string, es string, data array<map<string, variant>>, old array<map<string, variant>>, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
            from raw_events
        ) as parsed_events
    ),

    images as (
        select
            * except (__cdc_payload),
            _message.data as __cdc_row,
            coalesce(_message.old, cast(array() as array<map<string, variant>>)) as __cdc_old,
            if(size(_message.data) > 1, from_json(get_json_object(__cdc_payload, '$.mysqlType'), 'map<string, string>'), null) as __cdc_types,if(size(_message.data) > 1, null, __cdc_payload) as __cdc_whole_payload
        from messages
    ),

    changes as (
        select
            *,
            coalesce(
                __cdc_whole_payload,
                to_json(struct(
                    _message.database as database,
                    _message.table as table,
                    _message.type as type,
                    _message.es as es,
                    __cdc_types as mysqlType,
                    array(__cdc_images.__cdc_row) as data,
                    array(__cdc_images.__cdc_old) as old
                ))
            ) as __cdc_payload
        from images
        lateral view outer posexplode(arrays_zip(__cdc_row, __cdc_old)) changes as __cdc_index, __cdc_images
    )

    select
        *,
        case
            when __cdc_is_unreadable then null
            when _message.type = 'TRUNCATE' then 'T'
            when coalesce(_message.isDdl = 'true' or _message.type in ('CREATE', 'ALTER', 'ERASE', 'RENAME', 'QUERY', 'CINDEX', 'DINDEX'), false) then 'M'
            when _message.type in ('INSERT', 'INIT') then 'I'
            when _message.type in ('UPDATE', 'DELETE') then left(_message.type, 1)
        end as __cdc_operation,
        __cdc_images.__cdc_row as __cdc_image,
        case _message.type when 'UPDATE' then __cdc_images.__cdc_old when 'DELETE' then __cdc_images.__cdc_row end as __cdc_before,
        case when (`offset`) is null then null else struct((`offset`) as part_1, coalesce(__cdc_index, 0) as row_index) end as __cdc_seq,
        case
            when try_multiply(try_cast(_message.es as bigint), 1000L) between -62135596800000000 and 253402300799999999 then
                timestamp_micros(try_multiply(try_cast(_message.es as bigint), 1000L))
        end as __cdc_ts,
        case
            when __cdc_is_unreadable then 'unreadable payload'
            when _message.type is null then 'no operation'
            when _message.type <> 'TRUNCATE' and not coalesce(_message.isDdl = 'true' or _message.type in ('CREATE', 'ALTER', 'ERASE', 'RENAME', 'QUERY', 'CINDEX', 'DINDEX'), false) and not _message.type in ('INSERT', 'INIT', 'UPDATE', 'DELETE') then concat('unknown operation ', _message.type)
            when _message.type in ('INSERT', 'INIT', 'UPDATE', 'DELETE') and __cdc_images.__cdc_row is null then 'no row'
        end as __cdc_problem,
        case when nullif(_message.table, '') is not null then concat_ws('.', _message.database, _message.table) end as __cdc_table
    from changes
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
            struct(cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'seen_at'), false) then _cdc_image['seen_at'] else _cdc_before['seen_at'] end as string), case when _cdc_operation = 'U' and ((coalesce(map_contains_key(_cdc_before, 'id'), false) and cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string))) then case when coalesce(map_contains_key(_cdc_before, 'id'), false) then cast(_cdc_before['id'] as string) else cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string) end end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_seen_at`, `__cdc_given_old id`
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
        `__cdc_given_seen_at`,
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `seen_at`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_id` as int), try_cast(`__cdc_given_old id` as int), case
        when try_multiply(try_cast(`__cdc_given_seen_at` as bigint), 1000L) between -62135596800000000 and 253402300799999999 then
            timestampadd(microsecond, try_multiply(try_cast(`__cdc_given_seen_at` as bigint), 1000L), timestamp_ntz'1970-01-01 00:00:00')
    end, case when _cdc_operation in ('I', 'U') then array_except(array(case when not coalesce(map_contains_key(_cdc_image, 'seen_at'), false) and not coalesce(map_contains_key(_cdc_before, 'seen_at'), false) then 'seen_at' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `seen_at`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_id` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'id')) then 'id' end, `__cdc_given_id`, case when `__cdc_given_seen_at` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'seen_at')) then 'seen_at' end, `__cdc_given_seen_at`, cast(`_old_id` as bigint)) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is not null then concat('column id: ', left(cast(`__cdc_given_id` as string), 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `seen_at` is null and cast(`__cdc_given_seen_at` as string) is not null then concat('column seen_at: ', left(cast(`__cdc_given_seen_at` as string), 100), ' is not a timestamp_ntz') end), '') as _reason
        from typed_events
    ) as typed_events
)

select
    `id`,
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
