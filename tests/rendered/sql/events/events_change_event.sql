with raw_events as (
    select
        cast(`event` as string) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(null as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.change_event
    where ((topic = 'customers'))
),

read_events as (
    with change_events as (
        select
            *,
            _message.*
        from (select
            *,
            _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
        from (
            select
                *,
                from_json(__cdc_payload, 'changeType string, timestamp string, columnNames array<string>, columnValues array<variant>, oldKeyNames array<string>, oldKeyValues array<variant>, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
            from raw_events
        ) as parsed_events)
    ),

    paired_events as (
        select
            *,
            coalesce(size(_message.columnnames) = size(_message.columnvalues) and size(array_except(_message.columnnames, array(null))) = size(_message.columnnames), coalesce(_message.columnnames, _message.columnvalues) is null) as __cdc_columns_pair,
            coalesce(size(_message.oldkeynames) = size(_message.oldkeyvalues) and size(array_except(_message.oldkeynames, array(null))) = size(_message.oldkeynames), coalesce(_message.oldkeynames, _message.oldkeyvalues) is null) as __cdc_old_keys_pair
        from change_events
    )

    select
        *,
        case lower(trim(_message.changetype)) when 'insert' then 'I' when 'update' then 'U' when 'delete' then 'D' when 'truncate' then 'T' end
            as __cdc_operation,
        case when __cdc_columns_pair then map_from_arrays(_message.columnnames, _message.columnvalues) end as __cdc_image,
        case when __cdc_old_keys_pair then map_from_arrays(_message.oldkeynames, _message.oldkeyvalues) end as __cdc_before,
        try_cast(_message.timestamp as bigint) as __cdc_seq,
        case
            when _message._corrupt_record is not null then 'unreadable payload'
            when _message.changetype is null then 'no operation'
            when lower(trim(_message.changetype)) not in ('insert', 'update', 'delete', 'truncate') then concat('unknown operation ', _message.changetype)
            when not __cdc_columns_pair then 'column names and values do not pair'
            when not __cdc_old_keys_pair then 'old key names and values do not pair'
        end as __cdc_problem
    from paired_events
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
            * except (_cdc_operation, _cdc_image, _cdc_before, _seq, _cdc_problem),
            struct(_cdc_operation, _cdc_image, _cdc_before, _seq, _cdc_problem) as __cdc_decoded
        from decoded_events
    ) as decoded_events
    lateral view outer inline(array(__cdc_decoded)) decoded as _cdc_operation, _cdc_image, _cdc_before, _seq, _cdc_problem
),

given_events as (
    select *
    from (
        select
            *,
            struct(cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'balance'), false) then _cdc_image['balance'] else _cdc_before['balance'] end as string), case when _cdc_operation = 'U' and coalesce(map_contains_key(_cdc_before, 'id'), false) and (cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string)) then cast(_cdc_before['id'] as string) end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_balance`, `__cdc_given_old id`
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
        `__cdc_given_id`,
        `__cdc_given_balance`,
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `balance`,
        _unset
    from (
        select
            *,
            struct(`__cdc_given_id`, `__cdc_given_old id`, case when not (abs(try_cast(`__cdc_given_balance` as double)) = double('infinity') and `__cdc_given_balance` not ilike '%inf%') then try_cast(`__cdc_given_balance` as double) end, case when _cdc_operation in ('I', 'U') then array_except(array(case when not coalesce(map_contains_key(_cdc_image, 'balance'), false) and not coalesce(map_contains_key(_cdc_before, 'balance'), false) then 'balance' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `balance`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_balance` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'balance')) then 'balance' end, `__cdc_given_balance`, case when `__cdc_given_id` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'id')) then 'id' end, `__cdc_given_id`, `_old_id`) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a string') end, case when _op in ('I', 'U', 'D') and `balance` is null and cast(`__cdc_given_balance` as string) is not null then concat('column balance: ', left(cast(`__cdc_given_balance` as string), 100), ' is not a double') end, case when _op in ('I', 'U', 'D') and if(length(`__cdc_given_id`) between 16 and 25, if(`__cdc_given_id` rlike '^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$', length(ltrim('0', regexp_replace(`__cdc_given_id`, '[-.]|E.*', ''))) between 14 and 17 and replace(_payload, '.', '') rlike concat(left(ltrim('0', regexp_replace(`__cdc_given_id`, '[-.]|E.*', '')), 13), if(contains(`__cdc_given_id`, 'E'), '', '(?=[0-9]{20}|[0-9]+[eE])'), '[0-9]{4,}[1-9]'), false), false) then 'column id: its number has more digits than can be read' end), '') as _reason
        from typed_events
    ) as typed_events
)

select
    `id`,
    `balance`,
    _op,
    _seq,
    _event_id,
    _unset,
    `_old_id`,
    _arrived
from identified_events
where _reason is null
