with raw_events as (
    select raw_rows.*
    from (select null as `secret`) as absent_columns
    cross join lateral (
        select
            *,
            `secret` as `__cdc_raw_secret`,
            to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")) as __cdc_payload,
            cast(null as string) as __cdc_origin,
            cast(null as bigint) as __cdc_arrived,
            cast(null as string) as __cdc_raw_problem
        from raw.flagged_images
    ) as raw_rows
),

read_events as (

    select
        *,
        case
            when sku is null then 'T'
            when gone = 'Y' then 'D'
            when 'U' in ('I', 'U', 'D', 'T') then 'U'
            when 'U' in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE') then left('U', 1)
        end as __cdc_operation,
        case when (day) is null or (number) is null then null else struct((day) as part_1, (number) as part_2) end as __cdc_seq,
        cast(null as string) as __cdc_problem
    from raw_events
),

decoded_events as (
    select
        __cdc_payload as _payload,
        __cdc_origin as _origin,
        __cdc_arrived as _arrived,
        __cdc_raw_problem as _cdc_raw_problem,
        __cdc_operation as _cdc_operation,
        struct(`sku`, `price`, `listed_on`, `__cdc_raw_secret`, (true or true)) as __cdc_given,
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
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_sku`, `__cdc_given_price`, `__cdc_given_listed_on`, `__cdc_given_secret`, `__cdc_said_secret`
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
        `__cdc_given_sku`,
        `__cdc_given_price`,
        `__cdc_given_listed_on`,
        `__cdc_given_secret`,
        `__cdc_said_secret`,
        `sku`,
        `price`,
        `listed_on`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_sku` as string), if(typeof(`__cdc_given_price`) <> 'string', try_cast(`__cdc_given_price` as double), case when not (abs(try_cast(cast(`__cdc_given_price` as string) as double)) = double('infinity') and cast(`__cdc_given_price` as string) not ilike '%inf%') then try_cast(cast(`__cdc_given_price` as string) as double) end), if(lower(typeof(`__cdc_given_listed_on`)) = lower(typeof(cast(null as date))), try_cast(`__cdc_given_listed_on` as date), case when substr(cast(`__cdc_given_listed_on` as string), 5, 1) = '-' and length(cast(`__cdc_given_listed_on` as string)) >= 8 and not (locate('.', cast(`__cdc_given_listed_on` as string)) between 1 and length(cast(`__cdc_given_listed_on` as string)) - 7 and cast(`__cdc_given_listed_on` as string) rlike '[.][0-9]{6}[0-9]*[1-9]') and (length(cast(`__cdc_given_listed_on` as string)) <= 10 or try_cast(cast(`__cdc_given_listed_on` as string) as timestamp_ntz) = cast(try_cast(cast(`__cdc_given_listed_on` as string) as date) as timestamp_ntz)) then try_cast(cast(`__cdc_given_listed_on` as string) as date) end), case when _cdc_operation in ('I', 'U') then array_except(array(case when cast(`__cdc_given_price` as string) is null then 'price' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `sku`, `price`, `listed_on`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_listed_on` is not null then 'listed_on' end, cast(`listed_on` as timestamp_ntz), case when `__cdc_given_price` is not null then 'price' end, `price`, case when `__cdc_given_secret` is not null then 'secret' end, try_cast(`__cdc_given_secret` as string), case when `__cdc_given_sku` is not null then 'sku' end, `sku`, `_old_sku`) as _event_id
    from (
        select
            *,
            cast(null as string) as `_old_sku`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `sku` is null and cast(`__cdc_given_sku` as string) is null then 'no value for key column sku' end, case when _op in ('I', 'U', 'D') and `price` is null and cast(`__cdc_given_price` as string) is not null then concat('column price: ', left(cast(`__cdc_given_price` as string), 100), ' is not a double') end, case when _op in ('I', 'U', 'D') and `listed_on` is null and cast(`__cdc_given_listed_on` as string) is not null then concat('column listed_on: ', left(cast(`__cdc_given_listed_on` as string), 100), ' is not a date') end), '') as _reason
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
    select explode(coalesce(filter(_events, event -> event._op in ('I', 'U', 'D', 'T'))._event_id, array(_event_id))) as _event_id
    from app.current_without_history
),

applied_counts as (
    select count(distinct _event_id) as events_remembered
    from remembered_events
),

row_counts as (
    select
        (select count(*) from app.current_without_history where _cdc_deleted_at is null) as rows_now,
        cast(null as bigint) as versions
)

select
    'flagged_images' as table_name,
    events_read,
    events_remembered as events_applied,
    events_read - events_distinct - events_quarantined as events_duplicate,
    events_distinct - events_remembered as events_superseded,
    events_quarantined,
    events_left_out,
    rows_now,
    versions
from source_counts
cross join control_counts
cross join applied_counts
cross join row_counts
