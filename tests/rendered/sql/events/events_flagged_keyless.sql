with raw_events as (
    select
        *,
        to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(null as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.flagged_keyless
),

read_events as (

    select
        *,
        case
            when cast(flag as string) in ('I', 'U', 'D', 'T') then cast(flag as string)
            when upper(trim(cast(flag as string))) in ('I', 'U', 'D', 'T') then upper(trim(cast(flag as string)))
            when upper(trim(cast(flag as string))) in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE') then left(upper(trim(cast(flag as string))), 1)
        end as __cdc_operation,
        seq as __cdc_seq,
        case
            when cast(flag as string) in ('I', 'U', 'D', 'T') then null
            when flag is null then 'no operation'
            when upper(trim(cast(flag as string))) not in ('I', 'U', 'D', 'T', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
                then concat('unknown operation ', flag)
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
        struct(`visitor`, `pages`) as __cdc_given,
        __cdc_seq as _seq,
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
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_visitor`, `__cdc_given_pages`
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
        `__cdc_given_visitor`,
        `__cdc_given_pages`,
        `visitor`,
        `pages`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_visitor` as string), if(lower(typeof(`__cdc_given_pages`)) = lower(typeof(cast(null as array<int>))), try_cast(`__cdc_given_pages` as array<int>), get(transform(array(transform(from_json(cast(from_json(to_json(struct(`__cdc_given_pages` as value), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")), 'value variant').value as string), 'array<variant>'), item_0 -> struct(cast(item_0 as string) is not null as given, try_cast(cast(item_0 as string) as int) as value))), parts_0 -> if(exists(parts_0, part -> part.given and part.value is null), null, parts_0.value)), 0)), cast(array() as array<string>)) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `visitor`, `pages`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_pages` is not null then 'pages' end, `pages`, case when `__cdc_given_visitor` is not null then 'visitor' end, `visitor`) as _event_id
    from (
        select
            *,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when _op in ('U', 'D', 'T') then concat('operation ', _op, ' in a table that is insert_only') end, case when _op in ('I', 'U', 'D') and `pages` is null and cast(`__cdc_given_pages` as string) is not null then concat('column pages: ', left(cast(`__cdc_given_pages` as string), 100), ' is not a array<int>') end), '') as _reason
        from typed_events
    ) as typed_events
)

select
    _event_id as _row_id,
    `visitor`,
    `pages`,
    _op,
    _seq,
    _event_id,
    _unset,
    _arrived
from identified_events
where _reason is null
