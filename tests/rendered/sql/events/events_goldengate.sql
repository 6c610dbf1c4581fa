with raw_events as (
    select
        *,
        cast(`value` as string) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(null as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.goldengate
),

read_events as (
    with messages as (
        select
            *,
            _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
        from (
            select
                *,
                from_json(__cdc_payload, 'table string, op_type string, op_ts string, pos string, before map<string, variant>, after map<string, variant>, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
            from raw_events
        ) as parsed_events
    ),

    images as (
        select
            *,
            case
                when __cdc_is_unreadable then null
                when upper(trim(_message.op_type)) in ('I', 'INSERT') then 'I'
                when upper(trim(_message.op_type)) in ('U', 'UPDATE') then 'U'
                when upper(trim(_message.op_type)) in ('D', 'DELETE') then 'D'
                when upper(trim(_message.op_type)) in ('T', 'TRUNCATE') then 'T'
            end as __cdc_operation,
            if(
            contains(__cdc_payload, '_isMissing'),
            get(transform(
                array(_message.before),
                image -> map_filter(image, (name, value) -> not endswith(name, '_isMissing') and not coalesce(cast(image[concat(name, '_isMissing')] as string) = 'true', false))
            ), 0),
            _message.before
        ) as __cdc_old_image,
            case
                when _message.before is not null or _message.after is not null then if(
            contains(__cdc_payload, '_isMissing'),
            get(transform(
                array(_message.after),
                image -> map_filter(image, (name, value) -> not endswith(name, '_isMissing') and not coalesce(cast(image[concat(name, '_isMissing')] as string) = 'true', false))
            ), 0),
            _message.after
        )else
                    case
                        when
                            not array_contains(json_object_keys(__cdc_payload), 'before')
                            and not array_contains(json_object_keys(__cdc_payload), 'after')
                            then if(
            contains(__cdc_payload, '_isMissing'),
            get(transform(
                array(from_json(__cdc_payload, 'map<string, variant>')),
                image -> map_filter(image, (name, value) -> not endswith(name, '_isMissing') and not coalesce(cast(image[concat(name, '_isMissing')] as string) = 'true', false))
            ), 0),
            from_json(__cdc_payload, 'map<string, variant>')
        )
                    end
            end as __cdc_image
        from messages
    )

    select
        *,
        case __cdc_operation when 'D' then coalesce(__cdc_old_image, __cdc_image) when 'U' then __cdc_old_image end as __cdc_before,
        try_cast(case when _message.pos rlike '^[0-9]+$' then _message.pos end as decimal(38, 0)) as __cdc_seq,
        try_cast(_message.op_ts as timestamp) as __cdc_ts,
        case
            when __cdc_is_unreadable then 'unreadable payload'
            when upper(trim(_message.op_type)) is null then 'no operation'
            when __cdc_operation is null then concat('unknown operation ', _message.op_type)
            when __cdc_operation in ('I', 'U') and __cdc_image is null then 'no after image'
        end as __cdc_problem,
        nullif(_message.table, '') as __cdc_table
    from images
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
            struct(cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'address'), false) then _cdc_image['address'] else _cdc_before['address'] end as string), case when _cdc_operation = 'U' and coalesce(map_contains_key(_cdc_before, 'id'), false) and (cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string)) then cast(_cdc_before['id'] as string) end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_address`, `__cdc_given_old id`
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
        `__cdc_given_address`,
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `address`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_id` as int), try_cast(`__cdc_given_old id` as int), get(transform(array(from_json(`__cdc_given_address`, 'map<string, variant>')), item_0 -> if((size(item_0) = 0 or exists(map_keys(item_0), field -> lower(field) in ('city', 'zip'))), get(transform(array(struct(cast(get(map_values(map_filter(item_0, (field, value) -> lower(field) = 'city')), 0) as string) as `1`, cast(get(map_values(map_filter(item_0, (field, value) -> lower(field) = 'zip')), 0) as string) as `2`)), parts_0 -> get(transform(array(struct(parts_0.`1` as `city`, try_cast(parts_0.`2` as int) as `zip`)), whole_0 -> if((parts_0.`1` is not null and whole_0.`city` is null) or (parts_0.`2` is not null and whole_0.`zip` is null), null, whole_0)), 0)), 0), null)), 0), case when _cdc_operation in ('I', 'U') then array_except(array(case when not coalesce(map_contains_key(_cdc_image, 'address'), false) and not coalesce(map_contains_key(_cdc_before, 'address'), false) then 'address' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `address`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_address` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'address')) then 'address' end, `__cdc_given_address`, case when `__cdc_given_id` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'id')) then 'id' end, `__cdc_given_id`, cast(`_old_id` as bigint)) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is not null then concat('column id: ', left(cast(`__cdc_given_id` as string), 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `address` is null and cast(`__cdc_given_address` as string) is not null then concat('column address: ', left(cast(`__cdc_given_address` as string), 100), ' is not a struct<city:string,zip:int>') end), '') as _reason
        from typed_events
    ) as typed_events
)

select
    `id`,
    `address`,
    _op,
    _seq,
    _ts,
    _event_id,
    _unset,
    `_old_id`,
    _arrived
from identified_events
where _reason is null
