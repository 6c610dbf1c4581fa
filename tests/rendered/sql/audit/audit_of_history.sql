with raw_events as (
    select
        *,
        to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(batch as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.flagged
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
        if(typeof(changed_at) = 'string', raise_error('cdc: raw.flagged: `event_time` (changed_at) is text and no time. Write `try_cast(<expression> as timestamp)`.'), changed_at) as __cdc_ts,
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
        struct(`order_id`, `line`, `status`, `amount`) as __cdc_given,
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
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_order_id`, `__cdc_given_line`, `__cdc_given_status`, `__cdc_given_amount`
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
        `__cdc_given_order_id`,
        `__cdc_given_line`,
        `__cdc_given_status`,
        `__cdc_given_amount`,
        `order_id`,
        `line`,
        `status`,
        `amount`,
        _unset
    from (
        select
            *,
            struct(if(typeof(`__cdc_given_order_id`) rlike '^(float|double|decimal|timestamp)', try_cast(case when ((locate('.', cast(`__cdc_given_order_id` as string)) = 0 or length(cast(`__cdc_given_order_id` as string)) - locate('.', cast(`__cdc_given_order_id` as string)) <= 0) and not contains(cast(`__cdc_given_order_id` as string), 'E') and not contains(cast(`__cdc_given_order_id` as string), 'e')) or length(rtrim('0', regexp_extract(cast(`__cdc_given_order_id` as string), '[.]([0-9]*)', 1))) - coalesce(try_cast(nullif(regexp_extract(cast(`__cdc_given_order_id` as string), '[eE]([-+]?[0-9]+)', 1), '') as int), 0) <= 0 or cast(`__cdc_given_order_id` as string) rlike '^ *[-+]?[0.]+[eE]' then try_cast(cast(`__cdc_given_order_id` as string) as decimal(20,0)) end as bigint), try_cast(`__cdc_given_order_id` as bigint)), if(typeof(`__cdc_given_line`) rlike '^(float|double|decimal|timestamp)', try_cast(case when ((locate('.', cast(`__cdc_given_line` as string)) = 0 or length(cast(`__cdc_given_line` as string)) - locate('.', cast(`__cdc_given_line` as string)) <= 0) and not contains(cast(`__cdc_given_line` as string), 'E') and not contains(cast(`__cdc_given_line` as string), 'e')) or length(rtrim('0', regexp_extract(cast(`__cdc_given_line` as string), '[.]([0-9]*)', 1))) - coalesce(try_cast(nullif(regexp_extract(cast(`__cdc_given_line` as string), '[eE]([-+]?[0-9]+)', 1), '') as int), 0) <= 0 or cast(`__cdc_given_line` as string) rlike '^ *[-+]?[0.]+[eE]' then try_cast(cast(`__cdc_given_line` as string) as decimal(20,0)) end as int), try_cast(`__cdc_given_line` as int)), try_cast(`__cdc_given_status` as string), if(lower(typeof(`__cdc_given_amount`)) = lower(typeof(cast(null as decimal(12,2)))) or typeof(`__cdc_given_amount`) rlike 'int$', try_cast(`__cdc_given_amount` as decimal(12,2)), case when ((locate('.', cast(`__cdc_given_amount` as string)) = 0 or length(cast(`__cdc_given_amount` as string)) - locate('.', cast(`__cdc_given_amount` as string)) <= 2) and not contains(cast(`__cdc_given_amount` as string), 'E') and not contains(cast(`__cdc_given_amount` as string), 'e')) or length(rtrim('0', regexp_extract(cast(`__cdc_given_amount` as string), '[.]([0-9]*)', 1))) - coalesce(try_cast(nullif(regexp_extract(cast(`__cdc_given_amount` as string), '[eE]([-+]?[0-9]+)', 1), '') as int), 0) <= 2 or cast(`__cdc_given_amount` as string) rlike '^ *[-+]?[0.]+[eE]' then try_cast(cast(`__cdc_given_amount` as string) as decimal(12,2)) end), cast(array() as array<string>)) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `order_id`, `line`, `status`, `amount`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_amount` is not null then 'amount' end, if(endswith(cast(`amount` as string), '0'), rtrim('.', rtrim('0', cast(`amount` as string))), cast(`amount` as string)), case when `__cdc_given_line` is not null then 'line' end, cast(`line` as bigint), case when `__cdc_given_order_id` is not null then 'order_id' end, `order_id`, case when `__cdc_given_status` is not null then 'status' end, `status`, `_old_order_id`, cast(`_old_line` as bigint)) as _event_id
    from (
        select
            *,
            cast(null as bigint) as `_old_order_id`,
            cast(null as int) as `_old_line`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when _arrived is null then 'no arrival' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `order_id` is null and cast(`__cdc_given_order_id` as string) is null then 'no value for key column order_id' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `line` is null and cast(`__cdc_given_line` as string) is null then 'no value for key column line' end, case when _op in ('I', 'U', 'D') and `order_id` is null and cast(`__cdc_given_order_id` as string) is not null then concat('column order_id: ', left(cast(`__cdc_given_order_id` as string), 100), ' is not a bigint') end, case when _op in ('I', 'U', 'D') and `line` is null and cast(`__cdc_given_line` as string) is not null then concat('column line: ', left(cast(`__cdc_given_line` as string), 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `amount` is null and cast(`__cdc_given_amount` as string) is not null then concat('column amount: ', left(cast(`__cdc_given_amount` as string), 100), ' is not a decimal(12,2)') end), '') as _reason
        from typed_events
    ) as typed_events
),

source_counts as (
    select
        count(*) as events_read,
        count(distinct if(_reason is null, _event_id, null)) as events_distinct,
        count(distinct if(_reason is null and _op in ('D', 'T'), _event_id, null)) as ends_distinct,
        count_if(_reason is not null) as events_quarantined
    from identified_events
),

control_counts as (
    select count(*) as events_left_out
    from (select _arrived from decoded_events where _cdc_operation = 'M') as left_out_events
),

remembered_events as (
    select explode(coalesce(filter(_events, event -> event._op in ('I', 'U'))._event_id, array(_event_id))) as _event_id
    from app.history_flagged
),

applied_counts as (
    select count(distinct _event_id) as events_remembered
    from remembered_events
),

row_counts as (
    select
        (select count(*) from app.current_of_history) as rows_now,
        (select count(*) from app.history_flagged) as versions
)

select
    'flagged' as table_name,
    events_read,
    events_remembered + ends_distinct as events_applied,
    events_read - events_distinct - events_quarantined as events_duplicate,
    cast(0 as bigint) as events_superseded,
    events_quarantined,
    events_left_out,
    rows_now,
    versions
from source_counts
cross join control_counts
cross join applied_counts
cross join row_counts
