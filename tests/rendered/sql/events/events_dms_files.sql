with raw_events as (
    select
        *,
        to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(null as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.dms_files
),

read_events as (
    with file_rows as (
        select
            *,
            from_json(__cdc_payload, 'map<string, variant>') as __cdc_row
        from raw_events
    )

    select
        *,
        case when nullif(upper(trim(cast(coalesce(__cdc_row['Op'], __cdc_row['op'], __cdc_row['OP']) as string))), '') is null then 'I' when nullif(upper(trim(cast(coalesce(__cdc_row['Op'], __cdc_row['op'], __cdc_row['OP']) as string))), '') in ('I', 'U', 'D') then nullif(upper(trim(cast(coalesce(__cdc_row['Op'], __cdc_row['op'], __cdc_row['OP']) as string))), '') end as __cdc_operation,
        __cdc_row as __cdc_image,
        if(nullif(upper(trim(cast(coalesce(__cdc_row['Op'], __cdc_row['op'], __cdc_row['OP']) as string))), '') = 'D', __cdc_row, case when exists(map_keys(__cdc_row), name -> startswith(name, 'BI_')) and size(array_distinct(map_keys(__cdc_row))) = size(__cdc_row) then transform_keys(map_filter(__cdc_row, (name, value) -> startswith(name, 'BI_')), (name, value) -> substr(name, 4)) end) as __cdc_before,
        case
            when nullif(upper(trim(cast(coalesce(__cdc_row['Op'], __cdc_row['op'], __cdc_row['OP']) as string))), '') is null or (change_seq) is not null
                then struct(if(nullif(upper(trim(cast(coalesce(__cdc_row['Op'], __cdc_row['op'], __cdc_row['OP']) as string))), '') is null, 0, 1) as phase, change_seq as position)
        end as __cdc_seq,
        if(typeof(committed_at) = 'string', raise_error('cdc: raw.dms_files: `event_time` (committed_at) is text and no time. Write `try_cast(<expression> as timestamp)`.'), committed_at) as __cdc_ts,
        case when nullif(upper(trim(cast(coalesce(__cdc_row['Op'], __cdc_row['op'], __cdc_row['OP']) as string))), '') not in ('I', 'U', 'D') then concat('unknown operation ', nullif(upper(trim(cast(coalesce(__cdc_row['Op'], __cdc_row['op'], __cdc_row['OP']) as string))), '')) end as __cdc_problem,cast(null as string) as __cdc_table
    from file_rows
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
