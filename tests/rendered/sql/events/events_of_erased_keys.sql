with raw_events as (
    select
        *,
        to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(null as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.positions
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
        struct(`order_id`, `line`, `status`, `created_ts`) as __cdc_given,
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
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_order_id`, `__cdc_given_line`, `__cdc_given_status`, `__cdc_given_created_ts`
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
        `__cdc_given_order_id`,
        `__cdc_given_line`,
        `__cdc_given_status`,
        `__cdc_given_created_ts`,
        `order_id`,
        `line`,
        `status`,
        `created_ts`,
        _unset
    from (
        select
            *,
            struct(if(typeof(`__cdc_given_order_id`) rlike '^(float|double|decimal|timestamp)', try_cast(case when ((locate('.', cast(`__cdc_given_order_id` as string)) = 0 or length(cast(`__cdc_given_order_id` as string)) - locate('.', cast(`__cdc_given_order_id` as string)) <= 0) and not contains(cast(`__cdc_given_order_id` as string), 'E') and not contains(cast(`__cdc_given_order_id` as string), 'e')) or length(rtrim('0', regexp_extract(cast(`__cdc_given_order_id` as string), '[.]([0-9]*)', 1))) - coalesce(try_cast(nullif(regexp_extract(cast(`__cdc_given_order_id` as string), '[eE]([-+]?[0-9]+)', 1), '') as int), 0) <= 0 or cast(`__cdc_given_order_id` as string) rlike '^ *[-+]?[0.]+[eE]' then try_cast(cast(`__cdc_given_order_id` as string) as decimal(20,0)) end as bigint), try_cast(`__cdc_given_order_id` as bigint)), if(typeof(`__cdc_given_line`) rlike '^(float|double|decimal|timestamp)', try_cast(case when ((locate('.', cast(`__cdc_given_line` as string)) = 0 or length(cast(`__cdc_given_line` as string)) - locate('.', cast(`__cdc_given_line` as string)) <= 0) and not contains(cast(`__cdc_given_line` as string), 'E') and not contains(cast(`__cdc_given_line` as string), 'e')) or length(rtrim('0', regexp_extract(cast(`__cdc_given_line` as string), '[.]([0-9]*)', 1))) - coalesce(try_cast(nullif(regexp_extract(cast(`__cdc_given_line` as string), '[eE]([-+]?[0-9]+)', 1), '') as int), 0) <= 0 or cast(`__cdc_given_line` as string) rlike '^ *[-+]?[0.]+[eE]' then try_cast(cast(`__cdc_given_line` as string) as decimal(20,0)) end as int), try_cast(`__cdc_given_line` as int)), try_cast(`__cdc_given_status` as string), try_cast(`__cdc_given_created_ts` as string), cast(array() as array<string>)) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `order_id`, `line`, `status`, `created_ts`, _unset
),

all_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_created_ts` is not null then 'created_ts' end, `created_ts`, case when `__cdc_given_line` is not null then 'line' end, cast(`line` as bigint), case when `__cdc_given_order_id` is not null then 'order_id' end, `order_id`, case when `__cdc_given_status` is not null then 'status' end, `status`, `_old_order_id`, cast(`_old_line` as bigint)) as _event_id
    from (
        select
            *,
            cast(null as bigint) as `_old_order_id`,
            cast(null as int) as `_old_line`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `order_id` is null and cast(`__cdc_given_order_id` as string) is null then 'no value for key column order_id' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `line` is null and cast(`__cdc_given_line` as string) is null then 'no value for key column line' end, case when _op in ('I', 'U', 'D') and `order_id` is null and cast(`__cdc_given_order_id` as string) is not null then concat('column order_id: ', left(cast(`__cdc_given_order_id` as string), 100), ' is not a bigint') end, case when _op in ('I', 'U', 'D') and `line` is null and cast(`__cdc_given_line` as string) is not null then concat('column line: ', left(cast(`__cdc_given_line` as string), 100), ' is not a int') end), '') as _reason
        from typed_events
    ) as typed_events
),

erased_keys as (
    select
        key_hash,
        counts_from
    from app.cdc_erasures
    where table_name = 'raw.positions'
),

judged_events as (
    select
        keyed_events.* except (__cdc_key_hash, __cdc_old_key_hash),
        own_erasures.key_hash is not null or old_erasures.key_hash is not null as __cdc_is_erased
    from (
        select
            *,
            sha2(to_json(array('raw.positions', cast(`order_id` as string), cast(cast(`line` as bigint) as string))), 256) as __cdc_key_hash,
            sha2(to_json(array('raw.positions', cast(coalesce(`_old_order_id`, `order_id`) as string), cast(cast(coalesce(`_old_line`, `line`) as bigint) as string))), 256) as __cdc_old_key_hash
        from all_events
    ) as keyed_events
    left join erased_keys as own_erasures
        on
            keyed_events.__cdc_key_hash = own_erasures.key_hash
            and not keyed_events._op <=> 'T'
            and (own_erasures.counts_from is null or keyed_events._seq < own_erasures.counts_from)
    left join erased_keys as old_erasures
        on
            keyed_events.__cdc_old_key_hash = old_erasures.key_hash
            and not keyed_events._op <=> 'T'
            and (old_erasures.counts_from is null or keyed_events._seq < old_erasures.counts_from)
),

identified_events as (
    select * except (__cdc_is_erased)
    from judged_events
    where not __cdc_is_erased
)

select
    `order_id`,
    `line`,
    `status`,
    `created_ts`,
    _op,
    _seq,
    _event_id,
    _unset,
    `_old_order_id`,
    `_old_line`,
    _arrived
from identified_events
where _reason is null
