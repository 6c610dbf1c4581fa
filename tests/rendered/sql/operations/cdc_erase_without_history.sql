-- query
select count(*) from app.cdc_erasures where not is_done and table_name = 'raw.maxwell';

-- query
select try_cast('a' as string) is not null, try_cast('b' as string) is not null;

-- step erased_keys
select distinct `id` from (select `id` from (select cast('a' as string) as `id`) as given_key union all select `id` from (select cast('b' as string) as `id`) as given_key) as found_keys;

-- step erased_raw_rows_1
with raw_events as (
    select
        *,
        cast(`value` as string) as __cdc_payload,
        sha2(to_json(struct(`id`, `placed_on`, `tags`, `undeclared`)), 256) as __cdc_origin,
        cast(kafka_offset as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.maxwell
),

read_events as (
    with messages as (
        select
            *,
            _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
        from (
            select
                *,
                from_json(__cdc_payload, 'database string, table string, type string, ts string, xid string, xoffset string, commit string, position string, data map<string, variant>, old map<string, variant>, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
            from raw_events
        ) as parsed_events
    )

    select
        *,
        case
            when __cdc_is_unreadable then null
            when _message.type in ('insert', 'bootstrap-insert') then 'I'
            when _message.type = 'update' then 'U'
            when _message.type = 'delete' then 'D'
            when coalesce(_message.type in ('bootstrap-start', 'bootstrap-complete') or _message.type like 'table-%' or _message.type like 'database-%', false) then 'M'
        end as __cdc_operation,
        _message.data as __cdc_image,
        case _message.type when 'update' then _message.old when 'delete' then _message.data end as __cdc_before,
        case
                when try_cast(_message.ts as bigint) is not null then array(
                    try_cast(_message.ts as bigint),
                    if(_message.type = 'bootstrap-insert', 0L, 1L),
                    coalesce(try_cast(substring_index(substring_index(_message.position, ':', 1), '.', -1) as bigint), 0L),
                    coalesce(try_cast(substring_index(_message.position, ':', -1) as bigint), 0L),
                    coalesce(try_cast(_message.xid as bigint), 0L),
                    if(_message.commit = 'true', 9223372036854775807L, coalesce(try_cast(_message.xoffset as bigint), 0L))
                )
            end as __cdc_seq,
        case
            when try_multiply(try_cast(_message.ts as bigint), 1000000L) between -62135596800000000 and 253402300799999999 then
                timestamp_micros(try_multiply(try_cast(_message.ts as bigint), 1000000L))
        end as __cdc_ts,
        case
            when __cdc_is_unreadable then 'unreadable payload'
            when _message.type is null then 'no operation'
            when _message.type not in ('insert', 'bootstrap-insert', 'update', 'delete') and not coalesce(_message.type in ('bootstrap-start', 'bootstrap-complete') or _message.type like 'table-%' or _message.type like 'database-%', false)
                then concat('unknown operation ', _message.type)
            when _message.data is null then 'no row'
        end as __cdc_problem,
        case when nullif(_message.table, '') is not null then concat_ws('.', _message.database, _message.table) end as __cdc_table
    from messages
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
            struct(cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'placed_on'), false) then _cdc_image['placed_on'] else _cdc_before['placed_on'] end as string), cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'tags'), false) then _cdc_image['tags'] else _cdc_before['tags'] end as string), case when _cdc_operation = 'U' and ((coalesce(map_contains_key(_cdc_before, 'id'), false) and cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string))) then case when coalesce(map_contains_key(_cdc_before, 'id'), false) then cast(_cdc_before['id'] as string) else cast(case when _cdc_operation <> 'D' and coalesce(map_contains_key(_cdc_image, 'id'), false) then _cdc_image['id'] else _cdc_before['id'] end as string) end end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_placed_on`, `__cdc_given_tags`, `__cdc_given_old id`
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
        `__cdc_given_placed_on`,
        `__cdc_given_tags`,
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `placed_on`,
        `tags`,
        _unset
    from (
        select
            *,
            struct(`__cdc_given_id`, `__cdc_given_old id`, case when substr(`__cdc_given_placed_on`, 5, 1) = '-' and length(`__cdc_given_placed_on`) >= 8 and not (locate('.', `__cdc_given_placed_on`) between 1 and length(`__cdc_given_placed_on`) - 7 and `__cdc_given_placed_on` rlike '[.][0-9]{6}[0-9]*[1-9]') and (length(`__cdc_given_placed_on`) <= 10 or try_cast(`__cdc_given_placed_on` as timestamp_ntz) = cast(try_cast(`__cdc_given_placed_on` as date) as timestamp_ntz)) then try_cast(`__cdc_given_placed_on` as date) end, cast(from_json(`__cdc_given_tags`, 'array<variant>') as array<string>), case when _cdc_operation in ('I', 'U') then array_except(array(case when not coalesce(map_contains_key(_cdc_image, 'placed_on'), false) and not coalesce(map_contains_key(_cdc_before, 'placed_on'), false) then 'placed_on' end, case when not coalesce(map_contains_key(_cdc_image, 'tags'), false) and not coalesce(map_contains_key(_cdc_before, 'tags'), false) then 'tags' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `placed_on`, `tags`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_id` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'id')) then 'id' end, `__cdc_given_id`, case when `__cdc_given_placed_on` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'placed_on')) then 'placed_on' end, `__cdc_given_placed_on`, case when `__cdc_given_tags` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'tags')) then 'tags' end, `__cdc_given_tags`, `_old_id`) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when _arrived is null then 'no arrival' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a string') end, case when _op in ('I', 'U', 'D') and `placed_on` is null and cast(`__cdc_given_placed_on` as string) is not null then concat('column placed_on: ', left(cast(`__cdc_given_placed_on` as string), 100), ' is not a date') end, case when _op in ('I', 'U', 'D') and `tags` is null and cast(`__cdc_given_tags` as string) is not null then concat('column tags: ', left(cast(`__cdc_given_tags` as string), 100), ' is not a array<string>') end, case when _op in ('I', 'U', 'D') and if(length(`__cdc_given_id`) between 16 and 25, if(`__cdc_given_id` rlike '^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$', length(ltrim('0', regexp_replace(`__cdc_given_id`, '[-.]|E.*', ''))) between 14 and 17 and replace(_payload, '.', '') rlike concat(left(ltrim('0', regexp_replace(`__cdc_given_id`, '[-.]|E.*', '')), 13), if(contains(`__cdc_given_id`, 'E'), '', '(?=[0-9]{20}|[0-9]+[eE])'), '[0-9]{4,}[1-9]'), false), false) then 'column id: its number has more digits than can be read' end), '') as _reason
        from typed_events
    ) as typed_events
),

keyed_events as (
    select
        _origin,
        _arrived,
        explode(array_distinct(array(sha2(to_json(array('raw.maxwell', cast(`id` as string))), 256), sha2(to_json(array('raw.maxwell', cast(coalesce(`_old_id`, `id`) as string))), 256)))) as __cdc_key_hash
    from identified_events
    where not _op <=> 'T'
)

select
    _origin as __cdc_raw_row,
    min(_arrived) as _arrived
from keyed_events
where __cdc_key_hash in (select sha2(to_json(array('raw.maxwell', cast(`id` as string))), 256) from step_erased_keys)
group by _origin;

-- query
select count(*) from app.current_without_history_partitioned as held inner join step_erased_keys as erased on held.`id` <=> erased.`id`;

-- query
with held_texts as (
    select
        explode(array(held.`id`)) as __cdc_text,
        erased.__cdc_is_erased is not null as __cdc_is_erased
    from app.current_without_history_partitioned as held
    left join (select *, true as __cdc_is_erased from step_erased_keys) as erased on held.`id` <=> erased.`id`
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
merge into app.cdc_erasures as DBT_INTERNAL_DEST
using (select 'raw.maxwell' as table_name, sha2(to_json(array('raw.maxwell', cast(`id` as string))), 256) as key_hash, '<invocation_id>' as erasure_id, current_timestamp() as erased_at, cast(null as string) as counts_from, false as is_done from step_erased_keys) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`table_name` <=> DBT_INTERNAL_SOURCE.`table_name`
    and DBT_INTERNAL_DEST.`key_hash` <=> DBT_INTERNAL_SOURCE.`key_hash`
when matched then update set erasure_id = DBT_INTERNAL_SOURCE.erasure_id, erased_at = DBT_INTERNAL_SOURCE.erased_at, counts_from = DBT_INTERNAL_SOURCE.counts_from, is_done = DBT_INTERNAL_SOURCE.is_done
when not matched then insert (table_name, key_hash, erasure_id, erased_at, counts_from, is_done) values (DBT_INTERNAL_SOURCE.table_name, DBT_INTERNAL_SOURCE.key_hash, DBT_INTERNAL_SOURCE.erasure_id, DBT_INTERNAL_SOURCE.erased_at, DBT_INTERNAL_SOURCE.counts_from, DBT_INTERNAL_SOURCE.is_done);

-- query
create or replace view app.events_maxwell as select __cdc_events.* from (select * from events_before
) as __cdc_events left anti join (select key_hash from app.cdc_erasures where table_name = 'raw.maxwell') as __cdc_listed on __cdc_events._op <> 'T' and __cdc_listed.key_hash = sha2(to_json(array('raw.maxwell', cast(__cdc_events.`id` as string))), 256);

-- query
select min(_arrived), max(_arrived) from step_erased_raw_rows_1;

-- erase, in a commit with {}
merge into raw.maxwell as DBT_INTERNAL_DEST
using step_erased_raw_rows_1 as DBT_INTERNAL_SOURCE
on sha2(to_json(struct(DBT_INTERNAL_DEST.`id`, DBT_INTERNAL_DEST.`placed_on`, DBT_INTERNAL_DEST.`tags`, DBT_INTERNAL_DEST.`undeclared`)), 256) = DBT_INTERNAL_SOURCE.__cdc_raw_row
    and DBT_INTERNAL_DEST.kafka_offset between 9 and 1000
when matched then delete;

-- query
reorg table raw.maxwell apply (purge);

-- query
select if(bool_and(coalesce(is_valid_utf8(cast(`id` as string)), true)), to_json(struct(cast(min(`id`) as string) as low, cast(max(`id`) as string) as high, if(count(*) <= 2000, (select array_sort(collect_set(cast(`id` as string))) from (select * from step_erased_keys limit 2000) as listed_rows), null) as listed)), null) from step_erased_keys;

-- erase, in a commit with {"cdc": "app.current_without_history_partitioned", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.current_without_history_partitioned as DBT_INTERNAL_DEST
using step_erased_keys as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`id` <=> DBT_INTERNAL_SOURCE.`id`
    and DBT_INTERNAL_DEST.`id` between '1' and '9' and DBT_INTERNAL_DEST.`id` in ('1', '5', '9')
when matched then delete;

-- erase, in a commit with {"cdc": "app.current_without_history_partitioned", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.current_without_history_partitioned as DBT_INTERNAL_DEST
using (
                select __cdc_row.*
                from (
                    select min_by(struct(`id`), sha2(to_json(array('raw.maxwell', cast(`id` as string))), 256)) as __cdc_row
                    from app.current_without_history_partitioned
                    where _metadata.file_name in ('part-1.parquet')
                    group by _metadata.file_name
                ) as touched_files
            ) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`id` <=> DBT_INTERNAL_SOURCE.`id`
when matched then update set `id` = DBT_INTERNAL_SOURCE.`id`;

-- query
select max(kafka_offset) from raw.maxwell;

-- older files and the log before this commit go
raw.maxwell: {};

-- older files and the log before this commit go
app.current_without_history_partitioned: {"cdc": "app.current_without_history_partitioned", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "raw_version": null, "operation": ""};

-- create cdc_erasure_certificates
select cast(null as string) as erasure_id, cast(null as timestamp) as erased_at, cast(null as string) as table_name, cast(null as bigint) as keys, cast(null as string) as role, cast(null as string) as relation, cast(null as bigint) as rows_removed, cast(null as bigint) as files_rewritten, cast(null as bigint) as files_removed, cast(null as bigint) as values_searched, cast(null as bigint) as files_searched, cast(null as bigint) as files_holding;

-- query
insert into app.cdc_erasure_certificates values ('<invocation_id>', current_timestamp(), 'raw.maxwell', 3, 'raw', 'raw.maxwell', 3, 2, 4, 1, 6, 0), ('<invocation_id>', current_timestamp(), 'raw.maxwell', 3, 'final', 'app.current_without_history_partitioned', 3, 4, 4, 1, 6, 0);

-- query
update app.cdc_erasures set is_done = true where not is_done and table_name = 'raw.maxwell';
