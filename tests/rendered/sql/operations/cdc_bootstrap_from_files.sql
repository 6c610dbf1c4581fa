-- query
select _cdc_declared, _cdc_row, cast(_cdc_position as string) from app.cdc_bootstrap__raw_stock where _cdc_part = 'position';

-- query
create or replace temporary view cdc_bootstrap_source_1 using csv options ('header' 'true', 'escape' '"', 'multiLine' 'true', 'mode' 'FAILFAST', 'enforceSchema' 'false', 'nullValue' 'null', 'sep' ';', 'path' '/exports/stock.csv');

-- drop
drop table app.cdc_bootstrap__raw_stock;

-- schema
create schema if not exists app;

-- create cdc_bootstrap__raw_stock
select `sku` as `sku`, `cents` as `cents`, `exported_seq` as `exported_seq`, (cast(cents as decimal(12,2)) / 100
) as `price`, cast((exported_seq
) as bigint) as _cdc_position, monotonically_increasing_id() as _cdc_row, 'row' as _cdc_part, cast(null as string) as _cdc_declared from cdc_bootstrap_source_1;

-- query
insert into app.cdc_bootstrap__raw_stock select `sku` as `sku`, `cents` as `cents`, `exported_seq` as `exported_seq`, (cast(cents as decimal(12,2)) / 100
) as `price`, cast((exported_seq
) as bigint) as _cdc_position, monotonically_increasing_id() as _cdc_row, 'row' as _cdc_part, cast(null as string) as _cdc_declared from cdc_bootstrap_source_1;

-- query
select count(*), count(_cdc_position), count(*) from app.cdc_bootstrap__raw_stock where _cdc_part = 'row';

-- query
select count(*), any_value(example) from (select cast(struct(`sku`) as string) as example from app.cdc_bootstrap__raw_stock where _cdc_part = 'row' group by `sku`, _cdc_position having count(*) > 1) as repeated_keys;

-- query
select cast((select min(_cdc_position) from app.cdc_bootstrap__raw_stock where _cdc_part = 'row') as string), cast(min(_seq) as string), count_if(_seq <= (select min(_cdc_position) from app.cdc_bootstrap__raw_stock where _cdc_part = 'row')), cast(cast((1
) as bigint) as string), (cast((1
) as bigint)) <= (select min(_cdc_position) from app.cdc_bootstrap__raw_stock where _cdc_part = 'row') from (with raw_events as (
    select
        *,
        to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(null as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.stock
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
        struct(`sku`, `price`) as __cdc_given,
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
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_sku`, `__cdc_given_price`
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
        `sku`,
        `price`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_sku` as string), if(lower(typeof(`__cdc_given_price`)) = lower(typeof(cast(null as decimal(12,2)))) or typeof(`__cdc_given_price`) rlike 'int$', try_cast(`__cdc_given_price` as decimal(12,2)), case when ((locate('.', cast(`__cdc_given_price` as string)) = 0 or length(cast(`__cdc_given_price` as string)) - locate('.', cast(`__cdc_given_price` as string)) <= 2) and not contains(cast(`__cdc_given_price` as string), 'E') and not contains(cast(`__cdc_given_price` as string), 'e')) or length(rtrim('0', regexp_extract(cast(`__cdc_given_price` as string), '[.]([0-9]*)', 1))) - coalesce(try_cast(nullif(regexp_extract(cast(`__cdc_given_price` as string), '[eE]([-+]?[0-9]+)', 1), '') as int), 0) <= 2 or cast(`__cdc_given_price` as string) rlike '^ *[-+]?[0.]+[eE]' then try_cast(cast(`__cdc_given_price` as string) as decimal(12,2)) end), cast(array() as array<string>)) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `sku`, `price`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_price` is not null then 'price' end, if(endswith(cast(`price` as string), '0'), rtrim('.', rtrim('0', cast(`price` as string))), cast(`price` as string)), case when `__cdc_given_sku` is not null then 'sku' end, `sku`, `_old_sku`) as _event_id
    from (
        select
            *,
            cast(null as string) as `_old_sku`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `sku` is null and cast(`__cdc_given_sku` as string) is null then 'no value for key column sku' end, case when _op in ('I', 'U', 'D') and `price` is null and cast(`__cdc_given_price` as string) is not null then concat('column price: ', left(cast(`__cdc_given_price` as string), 100), ' is not a decimal(12,2)') end), '') as _reason
        from typed_events
    ) as typed_events
) select _seq from identified_events) as stream;

-- query
insert into app.cdc_bootstrap__raw_stock select cast(null as string) as `sku`, cast(null as string) as `cents`, cast(null as string) as `exported_seq`, cast(null as string) as `price`, (select min(_cdc_position) from app.cdc_bootstrap__raw_stock where _cdc_part = 'row') as `_cdc_position`, cast(5 as bigint) as `_cdc_row`, 'position' as `_cdc_part`, '["raw.stock", "exported_seq"]' as `_cdc_declared`;

-- query
drop view if exists cdc_bootstrap_source_1;
