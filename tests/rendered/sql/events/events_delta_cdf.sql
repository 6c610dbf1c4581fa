with raw_events as (
    select
        *,
        to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(_commit_version as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.delta_cdf
),

read_events as (

    with changed_rows as (
        select
            *,
            count_if(_change_type not in ('update_preimage', '-U')) over (
                partition by _commit_version, `id`
            ) as __cdc_images_after
        from raw_events
    )

    select
        *,
        case
            when _change_type in ('insert', '+I') then 'I'
            when _change_type in ('update_postimage', '+U') then 'U'
            when _change_type in ('delete', '-D') then 'D'
            when _change_type in ('update_preimage', '-U') then if(__cdc_images_after = 0, 'D', 'M')
        end as __cdc_operation,
        case when _commit_version is not null then struct(cast(_commit_version as bigint) as version, if(_change_type in ('delete', 'update_preimage', '-D', '-U'), 0, 1) as image) end as __cdc_seq,
        cast(_commit_timestamp as timestamp) as __cdc_ts,
        case
            when _change_type is null then 'no operation'
            when _change_type not in ('insert', 'update_postimage', 'delete', 'update_preimage', '+I', '+U', '-D', '-U')
                then concat('unknown operation ', _change_type)
        end as __cdc_problem
    from changed_rows
),

decoded_events as (
    select
        __cdc_payload as _payload,
        __cdc_origin as _origin,
        __cdc_arrived as _arrived,
        __cdc_raw_problem as _cdc_raw_problem,
        __cdc_operation as _cdc_operation,
        struct(`id`, `is_active`) as __cdc_given,
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
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_is_active`
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
        `__cdc_given_is_active`,
        `id`,
        `is_active`,
        _unset
    from (
        select
            *,
            struct(if(typeof(`__cdc_given_id`) rlike '^(float|double|decimal|timestamp)', try_cast(case when ((locate('.', cast(`__cdc_given_id` as string)) = 0 or length(cast(`__cdc_given_id` as string)) - locate('.', cast(`__cdc_given_id` as string)) <= 0) and not contains(cast(`__cdc_given_id` as string), 'E') and not contains(cast(`__cdc_given_id` as string), 'e')) or length(rtrim('0', regexp_extract(cast(`__cdc_given_id` as string), '[.]([0-9]*)', 1))) - coalesce(try_cast(nullif(regexp_extract(cast(`__cdc_given_id` as string), '[eE]([-+]?[0-9]+)', 1), '') as int), 0) <= 0 or cast(`__cdc_given_id` as string) rlike '^ *[-+]?[0.]+[eE]' then try_cast(cast(`__cdc_given_id` as string) as decimal(20,0)) end as int), try_cast(`__cdc_given_id` as int)), if(lower(typeof(`__cdc_given_is_active`)) = lower(typeof(cast(null as boolean))), try_cast(`__cdc_given_is_active` as boolean), try_cast(cast(`__cdc_given_is_active` as string) as boolean)), cast(array() as array<string>)) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `is_active`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_id` is not null then 'id' end, cast(`id` as bigint), case when `__cdc_given_is_active` is not null then 'is_active' end, `is_active`, cast(`_old_id` as bigint)) as _event_id
    from (
        select
            *,
            cast(null as int) as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when _arrived is null then 'no arrival' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is not null then concat('column id: ', left(cast(`__cdc_given_id` as string), 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `is_active` is null and cast(`__cdc_given_is_active` as string) is not null then concat('column is_active: ', left(cast(`__cdc_given_is_active` as string), 100), ' is not a boolean') end), '') as _reason
        from typed_events
    ) as typed_events
)

select
    `id`,
    `is_active`,
    _op,
    _seq,
    _ts,
    _event_id,
    _unset,
    `_old_id`,
    _arrived
from identified_events
where _reason is null
