-- query
select count(*) from app.cdc_erased_ranges__raw__followed where not is_done and true;

-- query
select try_cast('7' as int) is not null;

-- step given_keys
with known_events as (
    select
        *,
        sha2(to_json(array('raw.followed', cast(cast(`id` as bigint) as string))), 256) as __cdc_key_hash,
        sha2(to_json(array('raw.followed', cast(cast(coalesce(`_old_id`, `id`) as bigint) as string))), 256) as __cdc_old_key_hash
    from app.resolved_followed
    where _op <> 'T'
),

key_marks as (
    select
        _entity_id,
        _segment_id as __cdc_segment,
        __cdc_key_hash,
        _left_segment_id is not null as __cdc_is_arrival,
        struct(_seq as position, if(_op = 'D', 1, 0) as kind, _event_id as event_id) as place
    from known_events
    union all
    select
        _entity_id,
        _left_segment_id as __cdc_segment,
        __cdc_old_key_hash as __cdc_key_hash,
        false as __cdc_is_arrival,
        struct(_seq as position, 1 as kind, _event_id as event_id) as place
    from known_events
    where _left_segment_id is not null
),

truncate_marks as (
    select struct(_seq as position, 2 as kind, _event_id as event_id) as place
    from app.resolved_followed
    where _op = 'T'
)

select distinct
    given.place,
    given.key_hash,
    key_marks._entity_id as entity_id,
    key_marks._entity_id is not null or given.key_hash in (select key_hash from app.cdc_erased_ranges__raw__followed) as __cdc_is_known
from (select 1 as place, sha2(to_json(array('raw.followed', cast(cast(cast('7' as int) as bigint) as string))), 256) as key_hash) as given
left join key_marks on given.key_hash = key_marks.__cdc_key_hash;

-- query
select place, count(*) from step_given_keys group by place having count(*) > 1 order by place;

-- query
with raw_events as (
    select
        *,
        cast(`value` as string) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(null as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.followed
),

read_events as (
    with messages as (
        select
            *,
            _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
        from (
            select
                *,
                from_json(__cdc_payload, 'action string, timestamp string, lsn string, columns array<struct<name: string, value: variant>>, identity array<struct<name: string, value: variant>>, schema string, table string, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
            from raw_events
        ) as parsed_events
    ),

    checked_messages as (
        select
            *,
            try_cast(_message.timestamp as timestamp) as __cdc_committed_at,
            case when _message.lsn rlike '^[0-9a-fA-F]{1,8}/[0-9a-fA-F]{1,8}$' then try_cast(conv(concat(substring_index(_message.lsn, '/', 1), lpad(substring_index(_message.lsn, '/', -1), 8, '0')), 16, 10) as bigint) end as __cdc_lsn,
            size(array_except(_message.columns.name, array(null))) = size(_message.columns.name) as __cdc_columns_are_unique,
            size(array_except(_message.identity.name, array(null))) = size(_message.identity.name) as __cdc_keys_are_unique
        from messages
    )

    select
        *,
        case
            when _message.action in ('I', 'U', 'D', 'T') then _message.action
            when _message.action in ('B', 'C', 'M') then 'M'
        end as __cdc_operation,
        case when __cdc_columns_are_unique then map_from_arrays(_message.columns.name, _message.columns.value) end as __cdc_image,
        case when __cdc_keys_are_unique then map_from_arrays(_message.identity.name, _message.identity.value) end as __cdc_before,
        case when __cdc_committed_at is not null and __cdc_lsn is not null then struct(__cdc_committed_at as committed_at, __cdc_lsn as lsn) end as __cdc_seq,
        __cdc_committed_at as __cdc_ts,
        case
            when __cdc_is_unreadable then 'unreadable payload'
            when _message.action is null then 'no operation'
            when _message.action not in ('I', 'U', 'D', 'T', 'B', 'C', 'M') then concat('unknown operation ', _message.action)
            when _message.action in ('I', 'U', 'D') and not __cdc_columns_are_unique then 'a column is named twice'
            when _message.action in ('U', 'D') and not __cdc_keys_are_unique then 'a key column is named twice'
        end as __cdc_problem,
        case when nullif(_message.table, '') is not null then concat_ws('.', _message.schema, _message.table) end as __cdc_table
    from checked_messages
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
            struct(cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'name'), false) then _cdc_image['name'] else _cdc_before['name'] end as string), case when _cdc_operation = 'U' and coalesce(map_contains_key(_cdc_before, 'id'), false) and (cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string)) then cast(_cdc_before['id'] as string) end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_name`, `__cdc_given_old id`
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
        `__cdc_given_name`,
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `name`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_id` as int), try_cast(`__cdc_given_old id` as int), `__cdc_given_name`, case when _cdc_operation in ('I', 'U') then array_except(array(case when not coalesce(map_contains_key(_cdc_image, 'name'), false) and not coalesce(map_contains_key(_cdc_before, 'name'), false) then 'name' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `name`, _unset
),

all_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_id` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'id')) then 'id' end, `__cdc_given_id`, case when `__cdc_given_name` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'name')) then 'name' end, `__cdc_given_name`, cast(`_old_id` as bigint)) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is not null then concat('column id: ', left(cast(`__cdc_given_id` as string), 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and if(length(`__cdc_given_name`) between 16 and 25, if(`__cdc_given_name` rlike '^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$', length(ltrim('0', regexp_replace(`__cdc_given_name`, '[-.]|E.*', ''))) between 14 and 17 and replace(_payload, '.', '') rlike concat(left(ltrim('0', regexp_replace(`__cdc_given_name`, '[-.]|E.*', '')), 13), if(contains(`__cdc_given_name`, 'E'), '', '(?=[0-9]{20}|[0-9]+[eE])'), '[0-9]{4,}[1-9]'), false), false) then 'column name: its number has more digits than can be read' end), '') as _reason
        from typed_events
    ) as typed_events
),

erased_keys as (
    select
        key_hash,
        is_end,
        collect_list(struct(lower_bound, upper_bound, counts_from)) as __cdc_ranges
    from app.cdc_erased_ranges__raw__followed
    group by key_hash, is_end
),

keyed_events as (
    select
        *,
        sha2(to_json(array('raw.followed', cast(cast(`id` as bigint) as string))), 256) as __cdc_key_hash,
        sha2(to_json(array('raw.followed', cast(cast(coalesce(`_old_id`, `id`) as bigint) as string))), 256) as __cdc_old_key_hash
    from all_events
),

ranged_events as (
    select
        keyed_events.* except (__cdc_old_key_hash),
        coalesce(exists(own_erasures.__cdc_ranges, erased -> (keyed_events._seq is null or ((erased.lower_bound is null or named_struct('position', keyed_events._seq, 'side', 0) > erased.lower_bound) and (erased.upper_bound is null or named_struct('position', keyed_events._seq, 'side', 0) < erased.upper_bound))) and (erased.counts_from is null or keyed_events._ts < erased.counts_from)), false) as __cdc_is_own_erased,
        coalesce(exists(old_erasures.__cdc_ranges, erased -> (keyed_events._seq is null or ((erased.lower_bound is null or named_struct('position', keyed_events._seq, 'side', 0) > erased.lower_bound) and (erased.upper_bound is null or named_struct('position', keyed_events._seq, 'side', 0) < erased.upper_bound))) and (erased.counts_from is null or keyed_events._ts < erased.counts_from)), false) as __cdc_is_old_erased
    from keyed_events
    left join erased_keys as own_erasures
        on
            keyed_events.__cdc_key_hash = own_erasures.key_hash
            and own_erasures.is_end = (keyed_events._op = 'D')
            and keyed_events._op in ('I', 'U', 'D')
    left join erased_keys as old_erasures
        on
            keyed_events.__cdc_old_key_hash = old_erasures.key_hash
            and old_erasures.is_end
            and keyed_events._op in ('I', 'U')
            and keyed_events.__cdc_old_key_hash <> keyed_events.__cdc_key_hash
),

judged_events as (
    select
        * except (__cdc_key_hash, __cdc_is_own_erased, __cdc_is_old_erased),
        __cdc_is_own_erased or __cdc_is_old_erased as __cdc_is_erased
    from ranged_events
),

identified_events as (
    select * except (__cdc_is_erased)
    from judged_events
    where not __cdc_is_erased
)

select count(*)
from identified_events
left anti join app.resolved_followed as resolved_events on identified_events._event_id = resolved_events._event_id
where _reason is null;

-- step late_moves
with raw_events as (
    select
        *,
        cast(`value` as string) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(null as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.followed
),

read_events as (
    with messages as (
        select
            *,
            _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
        from (
            select
                *,
                from_json(__cdc_payload, 'action string, timestamp string, lsn string, columns array<struct<name: string, value: variant>>, identity array<struct<name: string, value: variant>>, schema string, table string, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
            from raw_events
        ) as parsed_events
    ),

    checked_messages as (
        select
            *,
            try_cast(_message.timestamp as timestamp) as __cdc_committed_at,
            case when _message.lsn rlike '^[0-9a-fA-F]{1,8}/[0-9a-fA-F]{1,8}$' then try_cast(conv(concat(substring_index(_message.lsn, '/', 1), lpad(substring_index(_message.lsn, '/', -1), 8, '0')), 16, 10) as bigint) end as __cdc_lsn,
            size(array_except(_message.columns.name, array(null))) = size(_message.columns.name) as __cdc_columns_are_unique,
            size(array_except(_message.identity.name, array(null))) = size(_message.identity.name) as __cdc_keys_are_unique
        from messages
    )

    select
        *,
        case
            when _message.action in ('I', 'U', 'D', 'T') then _message.action
            when _message.action in ('B', 'C', 'M') then 'M'
        end as __cdc_operation,
        case when __cdc_columns_are_unique then map_from_arrays(_message.columns.name, _message.columns.value) end as __cdc_image,
        case when __cdc_keys_are_unique then map_from_arrays(_message.identity.name, _message.identity.value) end as __cdc_before,
        case when __cdc_committed_at is not null and __cdc_lsn is not null then struct(__cdc_committed_at as committed_at, __cdc_lsn as lsn) end as __cdc_seq,
        __cdc_committed_at as __cdc_ts,
        case
            when __cdc_is_unreadable then 'unreadable payload'
            when _message.action is null then 'no operation'
            when _message.action not in ('I', 'U', 'D', 'T', 'B', 'C', 'M') then concat('unknown operation ', _message.action)
            when _message.action in ('I', 'U', 'D') and not __cdc_columns_are_unique then 'a column is named twice'
            when _message.action in ('U', 'D') and not __cdc_keys_are_unique then 'a key column is named twice'
        end as __cdc_problem,
        case when nullif(_message.table, '') is not null then concat_ws('.', _message.schema, _message.table) end as __cdc_table
    from checked_messages
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
            struct(cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'name'), false) then _cdc_image['name'] else _cdc_before['name'] end as string), case when _cdc_operation = 'U' and coalesce(map_contains_key(_cdc_before, 'id'), false) and (cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string)) then cast(_cdc_before['id'] as string) end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_name`, `__cdc_given_old id`
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
        `__cdc_given_name`,
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `name`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_id` as int), try_cast(`__cdc_given_old id` as int), `__cdc_given_name`, case when _cdc_operation in ('I', 'U') then array_except(array(case when not coalesce(map_contains_key(_cdc_image, 'name'), false) and not coalesce(map_contains_key(_cdc_before, 'name'), false) then 'name' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `name`, _unset
),

all_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_id` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'id')) then 'id' end, `__cdc_given_id`, case when `__cdc_given_name` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'name')) then 'name' end, `__cdc_given_name`, cast(`_old_id` as bigint)) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is not null then concat('column id: ', left(cast(`__cdc_given_id` as string), 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and if(length(`__cdc_given_name`) between 16 and 25, if(`__cdc_given_name` rlike '^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$', length(ltrim('0', regexp_replace(`__cdc_given_name`, '[-.]|E.*', ''))) between 14 and 17 and replace(_payload, '.', '') rlike concat(left(ltrim('0', regexp_replace(`__cdc_given_name`, '[-.]|E.*', '')), 13), if(contains(`__cdc_given_name`, 'E'), '', '(?=[0-9]{20}|[0-9]+[eE])'), '[0-9]{4,}[1-9]'), false), false) then 'column name: its number has more digits than can be read' end), '') as _reason
        from typed_events
    ) as typed_events
),

erased_keys as (
    select
        key_hash,
        is_end,
        collect_list(struct(lower_bound, upper_bound, counts_from)) as __cdc_ranges
    from app.cdc_erased_ranges__raw__followed
    group by key_hash, is_end
),

keyed_events as (
    select
        *,
        sha2(to_json(array('raw.followed', cast(cast(`id` as bigint) as string))), 256) as __cdc_key_hash,
        sha2(to_json(array('raw.followed', cast(cast(coalesce(`_old_id`, `id`) as bigint) as string))), 256) as __cdc_old_key_hash
    from all_events
),

ranged_events as (
    select
        keyed_events.* except (__cdc_old_key_hash),
        coalesce(exists(own_erasures.__cdc_ranges, erased -> (keyed_events._seq is null or ((erased.lower_bound is null or named_struct('position', keyed_events._seq, 'side', 0) > erased.lower_bound) and (erased.upper_bound is null or named_struct('position', keyed_events._seq, 'side', 0) < erased.upper_bound))) and (erased.counts_from is null or keyed_events._ts < erased.counts_from)), false) as __cdc_is_own_erased,
        coalesce(exists(old_erasures.__cdc_ranges, erased -> (keyed_events._seq is null or ((erased.lower_bound is null or named_struct('position', keyed_events._seq, 'side', 0) > erased.lower_bound) and (erased.upper_bound is null or named_struct('position', keyed_events._seq, 'side', 0) < erased.upper_bound))) and (erased.counts_from is null or keyed_events._ts < erased.counts_from)), false) as __cdc_is_old_erased
    from keyed_events
    left join erased_keys as own_erasures
        on
            keyed_events.__cdc_key_hash = own_erasures.key_hash
            and own_erasures.is_end = (keyed_events._op = 'D')
            and keyed_events._op in ('I', 'U', 'D')
    left join erased_keys as old_erasures
        on
            keyed_events.__cdc_old_key_hash = old_erasures.key_hash
            and old_erasures.is_end
            and keyed_events._op in ('I', 'U')
            and keyed_events.__cdc_old_key_hash <> keyed_events.__cdc_key_hash
),

judged_events as (
    select
        * except (__cdc_key_hash, __cdc_is_own_erased, __cdc_is_old_erased),
        __cdc_is_own_erased or __cdc_is_old_erased as __cdc_is_erased
    from ranged_events
),

identified_events as (
    select * except (__cdc_is_erased)
    from judged_events
    where not __cdc_is_erased
),

late_moves as (
    select
        __cdc_key_hash,
        struct(_seq as position, 0 as kind, _event_id as event_id) as place
    from ranged_events
    where __cdc_is_old_erased and not __cdc_is_own_erased and _reason is null
),

known_events as (
    select
        *,
        sha2(to_json(array('raw.followed', cast(cast(`id` as bigint) as string))), 256) as __cdc_key_hash,
        sha2(to_json(array('raw.followed', cast(cast(coalesce(`_old_id`, `id`) as bigint) as string))), 256) as __cdc_old_key_hash
    from app.resolved_followed
    where _op <> 'T'
),

key_marks as (
    select
        _entity_id,
        _segment_id as __cdc_segment,
        __cdc_key_hash,
        _left_segment_id is not null as __cdc_is_arrival,
        struct(_seq as position, if(_op = 'D', 1, 0) as kind, _event_id as event_id) as place
    from known_events
    union all
    select
        _entity_id,
        _left_segment_id as __cdc_segment,
        __cdc_old_key_hash as __cdc_key_hash,
        false as __cdc_is_arrival,
        struct(_seq as position, 1 as kind, _event_id as event_id) as place
    from known_events
    where _left_segment_id is not null
),

truncate_marks as (
    select struct(_seq as position, 2 as kind, _event_id as event_id) as place
    from app.resolved_followed
    where _op = 'T'
),

marks_at_keys as (
    select
        late_moves.__cdc_key_hash,
        late_moves.place as __cdc_move,
        key_marks._entity_id,
        key_marks.__cdc_is_arrival,
        key_marks.place
    from late_moves
    inner join key_marks using (__cdc_key_hash)
    union all
    select
        late_moves.__cdc_key_hash,
        late_moves.place as __cdc_move,
        null as _entity_id,
        true as __cdc_is_arrival,
        truncate_marks.place
    from late_moves
    cross join truncate_marks
),

surrounded_moves as (
    select
        late_moves.__cdc_key_hash,
        late_moves.place,
        max(marks_at_keys.place) filter (where marks_at_keys.place < late_moves.place) as place_before,
        min(struct(marks_at_keys.place, marks_at_keys._entity_id, marks_at_keys.__cdc_is_arrival))
            filter (where marks_at_keys.place > late_moves.place) as next_mark
    from late_moves
    left join marks_at_keys
        on late_moves.__cdc_key_hash = marks_at_keys.__cdc_key_hash and late_moves.place = marks_at_keys.__cdc_move
    group by late_moves.__cdc_key_hash, late_moves.place
)

select
    __cdc_key_hash as key_hash,
    coalesce(place_before.kind, 1) > 0 as is_free,
    if(next_mark.__cdc_is_arrival, null, next_mark._entity_id) as entity_id,
    if(place is null, null, named_struct('position', place.position, 'side', -1)) as lower_bound,
    case
        when next_mark.place.kind = 2 then if(next_mark.place is null, null, named_struct('position', next_mark.place.position, 'side', 1))
        when next_mark.__cdc_is_arrival then if(next_mark.place is null, null, named_struct('position', next_mark.place.position, 'side', -1))
    end as upper_bound
from surrounded_moves;

-- step named_entities
select distinct _entity_id from (select entity_id as _entity_id from step_given_keys union all select entity_id as _entity_id from step_late_moves where is_free) as found_entities where _entity_id is not null;

-- query
select count(distinct takers._entity_id)
from app.resolved_followed as takers
left semi join step_named_entities as named on takers._entity_id = named._entity_id
left anti join step_named_entities as ended on takers._ended_entity_id = ended._entity_id
left semi join app.resolved_followed as staying on takers._ended_entity_id = staying._entity_id
where takers._ended_entity_id is not null;

-- step new_ranges
select key_hash, is_end, lower_bound, upper_bound, entity_id, cast(null as string) as counts_from from ((with known_events as (
    select
        *,
        sha2(to_json(array('raw.followed', cast(cast(`id` as bigint) as string))), 256) as __cdc_key_hash,
        sha2(to_json(array('raw.followed', cast(cast(coalesce(`_old_id`, `id`) as bigint) as string))), 256) as __cdc_old_key_hash
    from app.resolved_followed
    where _op <> 'T'
),

key_marks as (
    select
        _entity_id,
        _segment_id as __cdc_segment,
        __cdc_key_hash,
        _left_segment_id is not null as __cdc_is_arrival,
        struct(_seq as position, if(_op = 'D', 1, 0) as kind, _event_id as event_id) as place
    from known_events
    union all
    select
        _entity_id,
        _left_segment_id as __cdc_segment,
        __cdc_old_key_hash as __cdc_key_hash,
        false as __cdc_is_arrival,
        struct(_seq as position, 1 as kind, _event_id as event_id) as place
    from known_events
    where _left_segment_id is not null
),

truncate_marks as (
    select struct(_seq as position, 2 as kind, _event_id as event_id) as place
    from app.resolved_followed
    where _op = 'T'
),

erased_segments as (
    select
        key_marks.__cdc_key_hash,
        key_marks.__cdc_segment,
        any_value(key_marks._entity_id) as _entity_id,
        min(key_marks.place) as first_place,
        max(key_marks.place) filter (where key_marks.place.kind = 1) as end_place
    from key_marks
    left semi join step_named_entities as entities on key_marks._entity_id = entities._entity_id
    group by key_marks.__cdc_key_hash, key_marks.__cdc_segment
),

other_marks as (
    select
        erased_segments.__cdc_key_hash,
        erased_segments.__cdc_segment,
        key_marks.place
    from erased_segments
    inner join key_marks
        on
            erased_segments.__cdc_key_hash = key_marks.__cdc_key_hash
            and erased_segments.__cdc_segment <> key_marks.__cdc_segment
    union all
    select
        erased_segments.__cdc_key_hash,
        erased_segments.__cdc_segment,
        truncate_marks.place
    from erased_segments
    cross join truncate_marks
),

neighbours as (
    select
        erased_segments.__cdc_key_hash,
        erased_segments.__cdc_segment,
        erased_segments._entity_id,
        erased_segments.first_place,
        erased_segments.end_place,
        max(other_marks.place) filter (where other_marks.place < erased_segments.first_place) as place_before,
        min(other_marks.place)
            filter (where other_marks.place.kind = 0 and other_marks.place > erased_segments.first_place) as next_arrival,
        min(other_marks.place)
            filter (where other_marks.place.kind = 2 and other_marks.place > erased_segments.first_place) as next_truncate
    from erased_segments
    left join other_marks using (__cdc_key_hash, __cdc_segment)
    group by all
),

bounded_segments as (
    select
        *,
        if(
            place_before.kind = 0,
            if(first_place is null, null, named_struct('position', first_place.position, 'side', -1)),
            if(place_before is null, null, named_struct('position', place_before.position, 'side', 1))
        ) as first_bound,
        if(end_place is null, null, named_struct('position', end_place.position, 'side', 1)) as end_bound,
        array_min(array(if(next_arrival is null, null, named_struct('position', next_arrival.position, 'side', -1)), if(next_truncate is null, null, named_struct('position', next_truncate.position, 'side', 1)))) as other_bound
    from neighbours
),

last_ends as (
    select
        bounded_segments.__cdc_key_hash,
        bounded_segments.__cdc_segment,
        max(other_marks.place) as last_end
    from bounded_segments
    inner join other_marks
        on
            bounded_segments.__cdc_key_hash = other_marks.__cdc_key_hash
            and bounded_segments.__cdc_segment = other_marks.__cdc_segment
            and other_marks.place.kind > 0
            and case
                when bounded_segments.end_place is not null then other_marks.place < bounded_segments.end_place
                when bounded_segments.other_bound is not null
                    then named_struct('position', other_marks.place.position, 'side', 0) < bounded_segments.other_bound
                else true
            end
    group by bounded_segments.__cdc_key_hash, bounded_segments.__cdc_segment
)

select
    __cdc_key_hash as key_hash,
    false as is_end,
    first_bound as lower_bound,
    array_min(array(end_bound, other_bound)) as upper_bound,
    _entity_id as entity_id
from bounded_segments
union all
select
    bounded_segments.__cdc_key_hash as key_hash,
    true as is_end,
    if(last_ends.last_end is null, null, named_struct('position', last_ends.last_end.position, 'side', 1)) as lower_bound,
    coalesce(bounded_segments.end_bound, bounded_segments.other_bound) as upper_bound,
    bounded_segments._entity_id as entity_id
from bounded_segments
left join last_ends using (__cdc_key_hash, __cdc_segment)) union all (select
    key_hash,
    explode(array(false, true)) as is_end,
    cast(null as struct<position: bigint, side: int>) as lower_bound,
    cast(null as struct<position: bigint, side: int>) as upper_bound,
    cast(null as bigint) as entity_id
from step_given_keys
where not __cdc_is_known) union all (select key_hash, explode(array(false, true)) as is_end, lower_bound, upper_bound, entity_id from step_late_moves where is_free and entity_id is null)) as found_ranges;

-- step erased_ranges
select * from step_new_ranges union all select key_hash, is_end, lower_bound, upper_bound, entity_id, counts_from from app.cdc_erased_ranges__raw__followed;

-- step erased_events
with all_events as (
    select * except (_entity_id), _entity_id as __cdc_entity
    from app.resolved_followed
    where _op <> 'T'
),

erased_keys as (
    select
        key_hash,
        is_end,
        collect_list(struct(lower_bound, upper_bound, counts_from)) as __cdc_ranges
    from step_erased_ranges
    group by key_hash, is_end
),

keyed_events as (
    select
        *,
        sha2(to_json(array('raw.followed', cast(cast(`id` as bigint) as string))), 256) as __cdc_key_hash,
        sha2(to_json(array('raw.followed', cast(cast(coalesce(`_old_id`, `id`) as bigint) as string))), 256) as __cdc_old_key_hash
    from all_events
),

ranged_events as (
    select
        keyed_events.* except (__cdc_old_key_hash),
        coalesce(exists(own_erasures.__cdc_ranges, erased -> (keyed_events._seq is null or ((erased.lower_bound is null or named_struct('position', keyed_events._seq, 'side', 0) > erased.lower_bound) and (erased.upper_bound is null or named_struct('position', keyed_events._seq, 'side', 0) < erased.upper_bound))) and (erased.counts_from is null or keyed_events._ts < erased.counts_from)), false) as __cdc_is_own_erased,
        coalesce(exists(old_erasures.__cdc_ranges, erased -> (keyed_events._seq is null or ((erased.lower_bound is null or named_struct('position', keyed_events._seq, 'side', 0) > erased.lower_bound) and (erased.upper_bound is null or named_struct('position', keyed_events._seq, 'side', 0) < erased.upper_bound))) and (erased.counts_from is null or keyed_events._ts < erased.counts_from)), false) as __cdc_is_old_erased
    from keyed_events
    left join erased_keys as own_erasures
        on
            keyed_events.__cdc_key_hash = own_erasures.key_hash
            and own_erasures.is_end = (keyed_events._op = 'D')
            and keyed_events._op in ('I', 'U', 'D')
    left join erased_keys as old_erasures
        on
            keyed_events.__cdc_old_key_hash = old_erasures.key_hash
            and old_erasures.is_end
            and keyed_events._op in ('I', 'U')
            and keyed_events.__cdc_old_key_hash <> keyed_events.__cdc_key_hash
),

judged_events as (
    select
        * except (__cdc_key_hash, __cdc_is_own_erased, __cdc_is_old_erased),
        __cdc_is_own_erased or __cdc_is_old_erased as __cdc_is_erased
    from ranged_events
),

identified_events as (
    select * except (__cdc_is_erased)
    from judged_events
    where not __cdc_is_erased
),

compared_events as (
    select
        judged_events._event_id,
        judged_events.__cdc_is_erased,
        named._entity_id is not null as __cdc_is_named,
        listed._entity_id is not null as __cdc_is_listed
    from judged_events
    left join step_named_entities as named on judged_events.__cdc_entity = named._entity_id
    left join (select distinct entity_id as _entity_id from app.cdc_erased_ranges__raw__followed) as listed on judged_events.__cdc_entity = listed._entity_id
)

select
    _event_id,
    if(__cdc_is_named, not __cdc_is_erased, not __cdc_is_listed) as __cdc_is_mixed
from compared_events
where __cdc_is_erased or __cdc_is_named;

-- query
select count(*) from step_erased_events where __cdc_is_mixed;

-- step erased_entities
with known_entities as (
    select distinct _entity_id
    from (select _entity_id from step_named_entities) as erased_rows
    where _entity_id is not null
),

staying_entities as (
    select distinct resolved_events._entity_id
    from app.resolved_followed as resolved_events
    left semi join known_entities on resolved_events._entity_id = known_entities._entity_id
    left anti join step_erased_events as erased_events on resolved_events._event_id = erased_events._event_id
)

select _entity_id
from known_entities
left anti join staying_entities using (_entity_id);

-- step erased_identities
select _event_id from step_erased_events;

-- query
select count(*) from step_late_moves where not is_free;

-- step erased_raw_rows_1
with raw_events as (
    select
        *,
        cast(`value` as string) as __cdc_payload,
        sha2(to_json(struct(`id`, `name`, `undeclared`)), 256) as __cdc_origin,
        cast(null as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.followed
),

read_events as (
    with messages as (
        select
            *,
            _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
        from (
            select
                *,
                from_json(__cdc_payload, 'action string, timestamp string, lsn string, columns array<struct<name: string, value: variant>>, identity array<struct<name: string, value: variant>>, schema string, table string, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
            from raw_events
        ) as parsed_events
    ),

    checked_messages as (
        select
            *,
            try_cast(_message.timestamp as timestamp) as __cdc_committed_at,
            case when _message.lsn rlike '^[0-9a-fA-F]{1,8}/[0-9a-fA-F]{1,8}$' then try_cast(conv(concat(substring_index(_message.lsn, '/', 1), lpad(substring_index(_message.lsn, '/', -1), 8, '0')), 16, 10) as bigint) end as __cdc_lsn,
            size(array_except(_message.columns.name, array(null))) = size(_message.columns.name) as __cdc_columns_are_unique,
            size(array_except(_message.identity.name, array(null))) = size(_message.identity.name) as __cdc_keys_are_unique
        from messages
    )

    select
        *,
        case
            when _message.action in ('I', 'U', 'D', 'T') then _message.action
            when _message.action in ('B', 'C', 'M') then 'M'
        end as __cdc_operation,
        case when __cdc_columns_are_unique then map_from_arrays(_message.columns.name, _message.columns.value) end as __cdc_image,
        case when __cdc_keys_are_unique then map_from_arrays(_message.identity.name, _message.identity.value) end as __cdc_before,
        case when __cdc_committed_at is not null and __cdc_lsn is not null then struct(__cdc_committed_at as committed_at, __cdc_lsn as lsn) end as __cdc_seq,
        __cdc_committed_at as __cdc_ts,
        case
            when __cdc_is_unreadable then 'unreadable payload'
            when _message.action is null then 'no operation'
            when _message.action not in ('I', 'U', 'D', 'T', 'B', 'C', 'M') then concat('unknown operation ', _message.action)
            when _message.action in ('I', 'U', 'D') and not __cdc_columns_are_unique then 'a column is named twice'
            when _message.action in ('U', 'D') and not __cdc_keys_are_unique then 'a key column is named twice'
        end as __cdc_problem,
        case when nullif(_message.table, '') is not null then concat_ws('.', _message.schema, _message.table) end as __cdc_table
    from checked_messages
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
            struct(cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'name'), false) then _cdc_image['name'] else _cdc_before['name'] end as string), case when _cdc_operation = 'U' and coalesce(map_contains_key(_cdc_before, 'id'), false) and (cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string)) then cast(_cdc_before['id'] as string) end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_name`, `__cdc_given_old id`
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
        `__cdc_given_name`,
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `name`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_id` as int), try_cast(`__cdc_given_old id` as int), `__cdc_given_name`, case when _cdc_operation in ('I', 'U') then array_except(array(case when not coalesce(map_contains_key(_cdc_image, 'name'), false) and not coalesce(map_contains_key(_cdc_before, 'name'), false) then 'name' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `name`, _unset
),

all_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_id` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'id')) then 'id' end, `__cdc_given_id`, case when `__cdc_given_name` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'name')) then 'name' end, `__cdc_given_name`, cast(`_old_id` as bigint)) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is not null then concat('column id: ', left(cast(`__cdc_given_id` as string), 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and if(length(`__cdc_given_name`) between 16 and 25, if(`__cdc_given_name` rlike '^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$', length(ltrim('0', regexp_replace(`__cdc_given_name`, '[-.]|E.*', ''))) between 14 and 17 and replace(_payload, '.', '') rlike concat(left(ltrim('0', regexp_replace(`__cdc_given_name`, '[-.]|E.*', '')), 13), if(contains(`__cdc_given_name`, 'E'), '', '(?=[0-9]{20}|[0-9]+[eE])'), '[0-9]{4,}[1-9]'), false), false) then 'column name: its number has more digits than can be read' end), '') as _reason
        from typed_events
    ) as typed_events
),

erased_keys as (
    select
        key_hash,
        is_end,
        collect_list(struct(lower_bound, upper_bound, counts_from)) as __cdc_ranges
    from step_erased_ranges
    group by key_hash, is_end
),

keyed_events as (
    select
        *,
        sha2(to_json(array('raw.followed', cast(cast(`id` as bigint) as string))), 256) as __cdc_key_hash,
        sha2(to_json(array('raw.followed', cast(cast(coalesce(`_old_id`, `id`) as bigint) as string))), 256) as __cdc_old_key_hash
    from all_events
),

ranged_events as (
    select
        keyed_events.* except (__cdc_old_key_hash),
        coalesce(exists(own_erasures.__cdc_ranges, erased -> (keyed_events._seq is null or ((erased.lower_bound is null or named_struct('position', keyed_events._seq, 'side', 0) > erased.lower_bound) and (erased.upper_bound is null or named_struct('position', keyed_events._seq, 'side', 0) < erased.upper_bound))) and (erased.counts_from is null or keyed_events._ts < erased.counts_from)), false) as __cdc_is_own_erased,
        coalesce(exists(old_erasures.__cdc_ranges, erased -> (keyed_events._seq is null or ((erased.lower_bound is null or named_struct('position', keyed_events._seq, 'side', 0) > erased.lower_bound) and (erased.upper_bound is null or named_struct('position', keyed_events._seq, 'side', 0) < erased.upper_bound))) and (erased.counts_from is null or keyed_events._ts < erased.counts_from)), false) as __cdc_is_old_erased
    from keyed_events
    left join erased_keys as own_erasures
        on
            keyed_events.__cdc_key_hash = own_erasures.key_hash
            and own_erasures.is_end = (keyed_events._op = 'D')
            and keyed_events._op in ('I', 'U', 'D')
    left join erased_keys as old_erasures
        on
            keyed_events.__cdc_old_key_hash = old_erasures.key_hash
            and old_erasures.is_end
            and keyed_events._op in ('I', 'U')
            and keyed_events.__cdc_old_key_hash <> keyed_events.__cdc_key_hash
),

judged_events as (
    select
        * except (__cdc_key_hash, __cdc_is_own_erased, __cdc_is_old_erased),
        __cdc_is_own_erased or __cdc_is_old_erased as __cdc_is_erased
    from ranged_events
),

identified_events as (
    select * except (__cdc_is_erased)
    from judged_events
    where not __cdc_is_erased
)

select
    _origin as __cdc_raw_row,
    min(_arrived) as _arrived
from judged_events
where __cdc_is_erased
group by _origin;

-- query
select count(*) from app.resolved_followed as held inner join step_erased_identities as erased on held.`_event_id` <=> erased.`_event_id`;

-- query
select count(*) from app.history_followed as held inner join step_erased_entities as erased on held.`_entity_id` <=> erased.`_entity_id`;

-- query
with held_texts as (
    select
        explode(array(held.`name`, held.`_op`)) as __cdc_text,
        erased.__cdc_is_erased is not null as __cdc_is_erased
    from app.resolved_followed as held
    left join (select *, true as __cdc_is_erased from step_erased_identities) as erased on held.`_event_id` <=> erased.`_event_id`
),

parted_texts as (
    select
        __cdc_text as __cdc_whole,
        explode(array(__cdc_text, left(__cdc_text, 32))) as __cdc_text
    from held_texts
    where __cdc_is_erased
),

erased_texts as (
    select
        __cdc_text,
        bool_or(__cdc_text = __cdc_whole) as __cdc_is_whole
    from parted_texts
    where length(__cdc_text) >= 4
    group by __cdc_text
),

shared_texts as (
    select distinct erased_texts.__cdc_text
    from erased_texts
    inner join held_texts on not held_texts.__cdc_is_erased and contains(held_texts.__cdc_text, erased_texts.__cdc_text)
)

select
    __cdc_text,
    __cdc_is_whole
from erased_texts
left anti join shared_texts using (__cdc_text);

-- query
insert into app.cdc_erased_ranges__raw__followed select key_hash, is_end, lower_bound, upper_bound, entity_id, '<invocation_id>' as erasure_id, current_timestamp() as erased_at, counts_from, false as is_done from step_new_ranges;

-- query
merge into app.cdc_erased_ranges__raw__followed as DBT_INTERNAL_DEST
using (select distinct key_hash from (with known_events as (
    select
        *,
        sha2(to_json(array('raw.followed', cast(cast(`id` as bigint) as string))), 256) as __cdc_key_hash,
        sha2(to_json(array('raw.followed', cast(cast(coalesce(`_old_id`, `id`) as bigint) as string))), 256) as __cdc_old_key_hash
    from app.resolved_followed
    where _op <> 'T'
),

key_marks as (
    select
        _entity_id,
        _segment_id as __cdc_segment,
        __cdc_key_hash,
        _left_segment_id is not null as __cdc_is_arrival,
        struct(_seq as position, if(_op = 'D', 1, 0) as kind, _event_id as event_id) as place
    from known_events
    union all
    select
        _entity_id,
        _left_segment_id as __cdc_segment,
        __cdc_old_key_hash as __cdc_key_hash,
        false as __cdc_is_arrival,
        struct(_seq as position, 1 as kind, _event_id as event_id) as place
    from known_events
    where _left_segment_id is not null
),

truncate_marks as (
    select struct(_seq as position, 2 as kind, _event_id as event_id) as place
    from app.resolved_followed
    where _op = 'T'
)

select distinct
    given.place,
    given.key_hash,
    key_marks._entity_id as entity_id,
    key_marks._entity_id is not null as __cdc_is_known
from (select 1 as place, sha2(to_json(array('raw.followed', cast(cast(cast('7' as int) as bigint) as string))), 256) as key_hash) as given
left join key_marks on given.key_hash = key_marks.__cdc_key_hash) as given where entity_id is null) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`key_hash` <=> DBT_INTERNAL_SOURCE.`key_hash`
    and DBT_INTERNAL_DEST.counts_from is not null
when matched then update set counts_from = null;

-- query
create or replace view app.events_followed as with all_events as (select * from events_before
),

erased_keys as (
    select
        key_hash,
        is_end,
        collect_list(struct(lower_bound, upper_bound, counts_from)) as __cdc_ranges
    from app.cdc_erased_ranges__raw__followed
    group by key_hash, is_end
),

keyed_events as (
    select
        *,
        sha2(to_json(array('raw.followed', cast(cast(`id` as bigint) as string))), 256) as __cdc_key_hash,
        sha2(to_json(array('raw.followed', cast(cast(coalesce(`_old_id`, `id`) as bigint) as string))), 256) as __cdc_old_key_hash
    from all_events
),

ranged_events as (
    select
        keyed_events.* except (__cdc_old_key_hash),
        coalesce(exists(own_erasures.__cdc_ranges, erased -> (keyed_events._seq is null or ((erased.lower_bound is null or named_struct('position', keyed_events._seq, 'side', 0) > erased.lower_bound) and (erased.upper_bound is null or named_struct('position', keyed_events._seq, 'side', 0) < erased.upper_bound))) and (erased.counts_from is null or keyed_events._ts < erased.counts_from)), false) as __cdc_is_own_erased,
        coalesce(exists(old_erasures.__cdc_ranges, erased -> (keyed_events._seq is null or ((erased.lower_bound is null or named_struct('position', keyed_events._seq, 'side', 0) > erased.lower_bound) and (erased.upper_bound is null or named_struct('position', keyed_events._seq, 'side', 0) < erased.upper_bound))) and (erased.counts_from is null or keyed_events._ts < erased.counts_from)), false) as __cdc_is_old_erased
    from keyed_events
    left join erased_keys as own_erasures
        on
            keyed_events.__cdc_key_hash = own_erasures.key_hash
            and own_erasures.is_end = (keyed_events._op = 'D')
            and keyed_events._op in ('I', 'U', 'D')
    left join erased_keys as old_erasures
        on
            keyed_events.__cdc_old_key_hash = old_erasures.key_hash
            and old_erasures.is_end
            and keyed_events._op in ('I', 'U')
            and keyed_events.__cdc_old_key_hash <> keyed_events.__cdc_key_hash
),

judged_events as (
    select
        * except (__cdc_key_hash, __cdc_is_own_erased, __cdc_is_old_erased),
        __cdc_is_own_erased or __cdc_is_old_erased as __cdc_is_erased
    from ranged_events
),

identified_events as (
    select * except (__cdc_is_erased)
    from judged_events
    where not __cdc_is_erased
)

select `id`, `name`, `_op`, `_seq`, `_ts`, `_event_id`, `_unset`, `_old_id`, `_arrived`
from identified_events;

-- erase, in a commit with {}
merge into raw.followed as DBT_INTERNAL_DEST
using step_erased_raw_rows_1 as DBT_INTERNAL_SOURCE
on sha2(to_json(struct(DBT_INTERNAL_DEST.`id`, DBT_INTERNAL_DEST.`name`, DBT_INTERNAL_DEST.`undeclared`)), 256) = DBT_INTERNAL_SOURCE.__cdc_raw_row
when matched then delete;

-- query
reorg table raw.followed apply (purge);

-- query
select if(bool_and(coalesce(is_valid_utf8(cast(`_entity_id` as string)), true)), to_json(struct(cast(min(`_entity_id`) as string) as low, cast(max(`_entity_id`) as string) as high, if(count(*) <= 2000, (select array_sort(collect_set(cast(`_entity_id` as string))) from (select * from step_erased_entities limit 2000) as listed_rows), null) as listed)), null) from step_erased_entities;

-- erase, in a commit with {"cdc": "app.history_followed", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.history_followed as DBT_INTERNAL_DEST
using step_erased_entities as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`_entity_id` <=> DBT_INTERNAL_SOURCE.`_entity_id`
    and DBT_INTERNAL_DEST.`_entity_id` between 1L and 9L and DBT_INTERNAL_DEST.`_entity_id` in (1L, 5L, 9L)
when matched then delete;

-- erase, in a commit with {"cdc": "app.history_followed", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.history_followed as DBT_INTERNAL_DEST
using (
                select __cdc_row.*
                from (
                    select min_by(struct(`_entity_id`, `dbt_scd_id`), sha2(to_json(array('raw.followed', cast(`_entity_id` as string))), 256)) as __cdc_row
                    from app.history_followed
                    where _metadata.file_name in ('part-1.parquet')
                    group by _metadata.file_name
                ) as touched_files
            ) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`_entity_id` <=> DBT_INTERNAL_SOURCE.`_entity_id`
    and DBT_INTERNAL_DEST.`dbt_scd_id` <=> DBT_INTERNAL_SOURCE.`dbt_scd_id`
when matched then update set `_entity_id` = DBT_INTERNAL_SOURCE.`_entity_id`;

-- query
select if(bool_and(coalesce(is_valid_utf8(cast(`_event_id` as string)), true)), to_json(struct(cast(min(`_event_id`) as string) as low, cast(max(`_event_id`) as string) as high, if(count(*) <= 2000, (select array_sort(collect_set(cast(`_event_id` as string))) from (select * from step_erased_identities limit 2000) as listed_rows), null) as listed)), null) from step_erased_identities;

-- erase, in a commit with {"cdc": "app.resolved_followed", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.resolved_followed as DBT_INTERNAL_DEST
using step_erased_identities as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`_event_id` <=> DBT_INTERNAL_SOURCE.`_event_id`
    and DBT_INTERNAL_DEST.`_event_id` between 1L and 9L and DBT_INTERNAL_DEST.`_event_id` in (1L, 5L, 9L)
when matched then delete;

-- erase, in a commit with {"cdc": "app.resolved_followed", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.resolved_followed as DBT_INTERNAL_DEST
using (
                select __cdc_row.*
                from (
                    select min_by(struct(`_event_id`), sha2(to_json(array('raw.followed', cast(`_event_id` as string))), 256)) as __cdc_row
                    from app.resolved_followed
                    where _metadata.file_name in ('part-1.parquet')
                    group by _metadata.file_name
                ) as touched_files
            ) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`_event_id` <=> DBT_INTERNAL_SOURCE.`_event_id`
when matched then update set `_event_id` = DBT_INTERNAL_SOURCE.`_event_id`;

-- query
select count(*) from app.resolved_followed where _ended_entity_id in (select _entity_id from step_erased_entities);

-- erase, in a commit with {"cdc": "app.resolved_followed", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.resolved_followed as DBT_INTERNAL_DEST
using (select _entity_id as _ended_entity_id from step_erased_entities) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST._ended_entity_id = DBT_INTERNAL_SOURCE._ended_entity_id
when matched then update set _ended_entity_id = null, _ended_segment_id = null;

-- older files and the log before this commit go
raw.followed: {};

-- older files and the log before this commit go
app.resolved_followed: {"cdc": "app.resolved_followed", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "raw_version": null, "operation": ""};

-- older files and the log before this commit go
app.history_followed: {"cdc": "app.history_followed", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "version": 12, "operation": ""};

-- create cdc_erasure_certificates
select cast(null as string) as erasure_id, cast(null as timestamp) as erased_at, cast(null as string) as table_name, cast(null as bigint) as keys, cast(null as string) as role, cast(null as string) as relation, cast(null as bigint) as rows_removed, cast(null as bigint) as files_rewritten, cast(null as bigint) as files_removed, cast(null as bigint) as values_searched, cast(null as bigint) as files_searched, cast(null as bigint) as files_holding;

-- query
insert into app.cdc_erasure_certificates values ('<invocation_id>', current_timestamp(), 'raw.followed', 3, 'raw', 'raw.followed', 3, 2, 4, 1, 6, 0), ('<invocation_id>', current_timestamp(), 'raw.followed', 3, 'history', 'app.history_followed', 3, 4, 4, 1, 6, 0), ('<invocation_id>', current_timestamp(), 'raw.followed', 3, 'keys', 'app.resolved_followed', 3, 4, 4, 1, 6, 0);

-- query
update app.cdc_erased_ranges__raw__followed set is_done = true where not is_done and true;
