with raw_events as (
    select
        *,
        cast(`value` as string) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(null as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.dms_messages
),

read_events as (
    with messages as (
        select
            *,
            _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
        from (
            select
                *,
                from_json(__cdc_payload, 'data map<string, variant>, `before-image` map<string, variant>, metadata map<string, string>, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
            from raw_events
        ) as parsed_events
    )

    select
        *,
        case
            when __cdc_is_unreadable then null
            when _message.metadata['operation'] in ('load', 'insert') then 'I'
            when _message.metadata['operation'] in ('update', 'delete') then upper(left(_message.metadata['operation'], 1))
            when _message.metadata['operation'] = 'truncate-table' then 'T'
            when coalesce(_message.metadata['record-type'] = 'control', false) then 'M'
        end as __cdc_operation,
        _message.data as __cdc_image,
        if(_message.metadata['operation'] = 'delete', _message.data, coalesce(_message.`before-image`, case when exists(map_keys(_message.data), name -> startswith(name, 'BI_')) and size(array_distinct(map_keys(_message.data))) = size(_message.data) then transform_keys(map_filter(_message.data, (name, value) -> startswith(name, 'BI_')), (name, value) -> substr(name, 4)) end)) as __cdc_before,
        case
                when _message.metadata['operation'] = 'load' then array(0L, 0L, 0L)
                when try_cast(_message.metadata['commit-timestamp'] as timestamp) is not null then array(
                    unix_micros(try_cast(_message.metadata['commit-timestamp'] as timestamp)),
                    coalesce(try_cast(_message.metadata['transaction-id'] as bigint), 0L),
                    coalesce(try_cast(_message.metadata['transaction-record-id'] as bigint), 0L)
                )
            end as __cdc_seq,
        coalesce(
                try_cast(_message.metadata['commit-timestamp'] as timestamp),
                if(_message.metadata['operation'] in ('load', 'truncate-table'), try_cast(_message.metadata['timestamp'] as timestamp), null)
            ) as __cdc_ts,
        case
            when __cdc_is_unreadable then 'unreadable payload'
            when _message.metadata['operation'] is null then 'no operation'
            when _message.metadata['operation'] not in ('load', 'insert', 'update', 'delete', 'truncate-table') and not coalesce(_message.metadata['record-type'] = 'control', false)
                then concat('unknown operation ', _message.metadata['operation'])
            when _message.metadata['operation'] = 'truncate-table' and try_cast(_message.metadata['commit-timestamp'] as timestamp) is null
                then 'truncate-table has no commit time to order it by: declare `sequence_by`'
            when _message.data is null and _message.metadata['operation'] <> 'truncate-table' then 'no row'
        end as __cdc_problem,
        case when nullif(_message.metadata['table-name'], '') is not null then concat_ws('.', _message.metadata['schema-name'], _message.metadata['table-name']) end as __cdc_table
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
            struct(cast(case when _cdc_operation <> 'D' and (_cdc_image is not null) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and (_cdc_image is not null) then _cdc_image['photo'] else _cdc_before['photo'] end as string), case when _cdc_operation = 'U' and coalesce(map_contains_key(_cdc_before, 'id'), false) and (cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string)) then cast(_cdc_before['id'] as string) end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_photo`, `__cdc_given_old id`
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
        `__cdc_given_photo`,
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `photo`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_id` as int), try_cast(`__cdc_given_old id` as int), try_to_binary(`__cdc_given_photo`, 'base64'), case when _cdc_operation in ('I', 'U') then array_except(array(case when not (_cdc_image is not null) and not coalesce(map_contains_key(_cdc_before, 'photo'), false) then 'photo' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `photo`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_id` is not null then 'id' end, `__cdc_given_id`, case when `__cdc_given_photo` is not null then 'photo' end, `__cdc_given_photo`, cast(`_old_id` as bigint)) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is not null then concat('column id: ', left(cast(`__cdc_given_id` as string), 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `photo` is null and cast(`__cdc_given_photo` as string) is not null then concat('column photo: ', left(cast(`__cdc_given_photo` as string), 100), ' is not a binary') end), '') as _reason
        from typed_events
    ) as typed_events
)

select
    `id`,
    `photo`,
    _op,
    _seq,
    _ts,
    _event_id,
    _unset,
    `_old_id`,
    _arrived
from identified_events
where _reason is null
