-- query
select count(*), count_if(status = 'person'
) from app.history_flagged;

-- step erased_keys
select distinct `order_id`, `line` from (select `order_id`, `line` from app.history_flagged where ((status = 'person'
))) as found_keys;

-- step erased_raw_rows_1
with raw_events as (
    select
        *,
        to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")) as __cdc_payload,
        sha2(to_json(struct(`order_id`, `line`, `status`, `amount`, `undeclared`)), 256) as __cdc_origin,
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

keyed_events as (
    select
        _origin,
        _arrived,
        explode(array_distinct(array(sha2(to_json(array('raw.flagged', cast(`order_id` as string), cast(cast(`line` as bigint) as string))), 256), sha2(to_json(array('raw.flagged', cast(coalesce(`_old_order_id`, `order_id`) as string), cast(cast(coalesce(`_old_line`, `line`) as bigint) as string))), 256)))) as __cdc_key_hash
    from identified_events
    where not _op <=> 'T'
)

select
    _origin as __cdc_raw_row,
    min(_arrived) as _arrived
from keyed_events
where __cdc_key_hash in (select sha2(to_json(array('raw.flagged', cast(`order_id` as string), cast(cast(`line` as bigint) as string))), 256) from step_erased_keys)
group by _origin;

-- query
select count(*) from app.current_of_history as held inner join step_erased_keys as erased on held.`order_id` <=> erased.`order_id` and held.`line` <=> erased.`line`;

-- query
select count(*) from app.history_flagged_tombstones as held inner join step_erased_keys as erased on held.`order_id` <=> erased.`order_id` and held.`line` <=> erased.`line`;

-- query
select count(*) from app.history_flagged as held inner join step_erased_keys as erased on held.`order_id` <=> erased.`order_id` and held.`line` <=> erased.`line`;

-- query
select count(*) from app.changes_of_current as held inner join step_erased_keys as erased on held.`order_id` <=> erased.`order_id` and held.`line` <=> erased.`line`;

-- query
with held_texts as (
    select
        explode(array(held.`status`)) as __cdc_text,
        erased.__cdc_is_erased is not null as __cdc_is_erased
    from app.history_flagged as held
    left join (select *, true as __cdc_is_erased from step_erased_keys) as erased on held.`order_id` <=> erased.`order_id` and held.`line` <=> erased.`line`
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

-- schema
create schema if not exists app;

-- create cdc_erasures
select cast(null as string) as table_name, cast(null as string) as key_hash, cast(null as string) as erasure_id, cast(null as timestamp) as erased_at, cast(null as string) as counts_from, cast(null as boolean) as is_done;

-- query
merge into app.cdc_erasures as DBT_INTERNAL_DEST
using (select 'raw.flagged' as table_name, sha2(to_json(array('raw.flagged', cast(`order_id` as string), cast(cast(`line` as bigint) as string))), 256) as key_hash, '<invocation_id>' as erasure_id, current_timestamp() as erased_at, cast(null as string) as counts_from, false as is_done from step_erased_keys) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`table_name` <=> DBT_INTERNAL_SOURCE.`table_name`
    and DBT_INTERNAL_DEST.`key_hash` <=> DBT_INTERNAL_SOURCE.`key_hash`
when matched then update set erasure_id = DBT_INTERNAL_SOURCE.erasure_id, erased_at = DBT_INTERNAL_SOURCE.erased_at, counts_from = DBT_INTERNAL_SOURCE.counts_from, is_done = DBT_INTERNAL_SOURCE.is_done
when not matched then insert (table_name, key_hash, erasure_id, erased_at, counts_from, is_done) values (DBT_INTERNAL_SOURCE.table_name, DBT_INTERNAL_SOURCE.key_hash, DBT_INTERNAL_SOURCE.erasure_id, DBT_INTERNAL_SOURCE.erased_at, DBT_INTERNAL_SOURCE.counts_from, DBT_INTERNAL_SOURCE.is_done);

-- query
create or replace view app.events_flagged as select __cdc_events.* from (select * from events_before
) as __cdc_events left anti join (select key_hash from app.cdc_erasures where table_name = 'raw.flagged') as __cdc_listed on __cdc_events._op <> 'T' and __cdc_listed.key_hash = sha2(to_json(array('raw.flagged', cast(__cdc_events.`order_id` as string), cast(cast(__cdc_events.`line` as bigint) as string))), 256);

-- query
select min(_arrived), max(_arrived) from step_erased_raw_rows_1;

-- erase, in a commit with {}
merge into raw.flagged as DBT_INTERNAL_DEST
using step_erased_raw_rows_1 as DBT_INTERNAL_SOURCE
on sha2(to_json(struct(DBT_INTERNAL_DEST.`order_id`, DBT_INTERNAL_DEST.`line`, DBT_INTERNAL_DEST.`status`, DBT_INTERNAL_DEST.`amount`, DBT_INTERNAL_DEST.`undeclared`)), 256) = DBT_INTERNAL_SOURCE.__cdc_raw_row
    and DBT_INTERNAL_DEST.batch between 9 and 1000
when matched then delete;

-- query
reorg table raw.flagged apply (purge);

-- query
select if(bool_and(coalesce(is_valid_utf8(cast(`order_id` as string)), true)), to_json(struct(cast(min(`order_id`) as string) as low, cast(max(`order_id`) as string) as high, if(count(*) <= 2000, (select array_sort(collect_set(cast(`order_id` as string))) from (select * from step_erased_keys limit 2000) as listed_rows), null) as listed)), null) from step_erased_keys;

-- erase, in a commit with {}
merge into app.history_flagged_tombstones as DBT_INTERNAL_DEST
using step_erased_keys as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
    and DBT_INTERNAL_DEST.`order_id` between 1L and 9L and DBT_INTERNAL_DEST.`order_id` in (1L, 5L, 9L)
when matched then delete;

-- erase, in a commit with {}
merge into app.history_flagged_tombstones as DBT_INTERNAL_DEST
using (
                select __cdc_row.*
                from (
                    select min_by(struct(`order_id`, `line`, `_event_id`), sha2(to_json(array('raw.flagged', cast(`order_id` as string), cast(cast(`line` as bigint) as string))), 256)) as __cdc_row
                    from app.history_flagged_tombstones
                    where _metadata.file_name in ('part-1.parquet')
                    group by _metadata.file_name
                ) as touched_files
            ) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
    and DBT_INTERNAL_DEST.`_event_id` <=> DBT_INTERNAL_SOURCE.`_event_id`
when matched then update set `order_id` = DBT_INTERNAL_SOURCE.`order_id`;

-- query
select if(bool_and(coalesce(is_valid_utf8(cast(`order_id` as string)), true)), to_json(struct(cast(min(`order_id`) as string) as low, cast(max(`order_id`) as string) as high, if(count(*) <= 2000, (select array_sort(collect_set(cast(`order_id` as string))) from (select * from step_erased_keys limit 2000) as listed_rows), null) as listed)), null) from step_erased_keys;

-- erase, in a commit with {"cdc": "app.changes_of_current", "version": 7, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.changes_of_current as DBT_INTERNAL_DEST
using step_erased_keys as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
    and DBT_INTERNAL_DEST.`order_id` between 1L and 9L and DBT_INTERNAL_DEST.`order_id` in (1L, 5L, 9L)
when matched then delete;

-- erase, in a commit with {"cdc": "app.changes_of_current", "version": 7, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.changes_of_current as DBT_INTERNAL_DEST
using (
                select __cdc_row.*
                from (
                    select min_by(struct(`order_id`, `line`, `_commit_version`, `_row_kind`), sha2(to_json(array('raw.flagged', cast(`order_id` as string), cast(cast(`line` as bigint) as string))), 256)) as __cdc_row
                    from app.changes_of_current
                    where _metadata.file_name in ('part-1.parquet')
                    group by _metadata.file_name
                ) as touched_files
            ) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
    and DBT_INTERNAL_DEST.`_commit_version` <=> DBT_INTERNAL_SOURCE.`_commit_version`
    and DBT_INTERNAL_DEST.`_row_kind` <=> DBT_INTERNAL_SOURCE.`_row_kind`
when matched then update set `order_id` = DBT_INTERNAL_SOURCE.`order_id`;

-- query
select if(bool_and(coalesce(is_valid_utf8(cast(`order_id` as string)), true)), to_json(struct(cast(min(`order_id`) as string) as low, cast(max(`order_id`) as string) as high, if(count(*) <= 2000, (select array_sort(collect_set(cast(`order_id` as string))) from (select * from step_erased_keys limit 2000) as listed_rows), null) as listed)), null) from step_erased_keys;

-- erase, in a commit with {"cdc": "app.current_of_history", "version": 7, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.current_of_history as DBT_INTERNAL_DEST
using step_erased_keys as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
    and DBT_INTERNAL_DEST.`order_id` between 1L and 9L and DBT_INTERNAL_DEST.`order_id` in (1L, 5L, 9L)
when matched then delete;

-- erase, in a commit with {"cdc": "app.current_of_history", "version": 7, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.current_of_history as DBT_INTERNAL_DEST
using (
                select __cdc_row.*
                from (
                    select min_by(struct(`order_id`, `line`), sha2(to_json(array('raw.flagged', cast(`order_id` as string), cast(cast(`line` as bigint) as string))), 256)) as __cdc_row
                    from app.current_of_history
                    where _metadata.file_name in ('part-1.parquet')
                    group by _metadata.file_name
                ) as touched_files
            ) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
when matched then update set `order_id` = DBT_INTERNAL_SOURCE.`order_id`;

-- query
select if(bool_and(coalesce(is_valid_utf8(cast(`order_id` as string)), true)), to_json(struct(cast(min(`order_id`) as string) as low, cast(max(`order_id`) as string) as high, if(count(*) <= 2000, (select array_sort(collect_set(cast(`order_id` as string))) from (select * from step_erased_keys limit 2000) as listed_rows), null) as listed)), null) from step_erased_keys;

-- erase, in a commit with {"cdc": "app.history_flagged", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.history_flagged as DBT_INTERNAL_DEST
using step_erased_keys as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
    and DBT_INTERNAL_DEST.`order_id` between 1L and 9L and DBT_INTERNAL_DEST.`order_id` in (1L, 5L, 9L)
when matched then delete;

-- erase, in a commit with {"cdc": "app.history_flagged", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "erasure": "<invocation_id>", "operation": ""}
merge into app.history_flagged as DBT_INTERNAL_DEST
using (
                select __cdc_row.*
                from (
                    select min_by(struct(`order_id`, `line`, `dbt_scd_id`), sha2(to_json(array('raw.flagged', cast(`order_id` as string), cast(cast(`line` as bigint) as string))), 256)) as __cdc_row
                    from app.history_flagged
                    where _metadata.file_name in ('part-1.parquet')
                    group by _metadata.file_name
                ) as touched_files
            ) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
    and DBT_INTERNAL_DEST.`dbt_scd_id` <=> DBT_INTERNAL_SOURCE.`dbt_scd_id`
when matched then update set `order_id` = DBT_INTERNAL_SOURCE.`order_id`;

-- query
select max(batch) from raw.flagged;

-- older files and the log before this commit go
raw.flagged: {};

-- older files and the log before this commit go
app.history_flagged_tombstones: {};

-- older files and the log before this commit go
app.history_flagged: {"cdc": "app.history_flagged", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "raw_version": null, "operation": ""};

-- older files and the log before this commit go
app.current_of_history: {"cdc": "app.current_of_history", "version": 12, "written_at": 7, "at": 7, "base": 7, "operation": ""};

-- older files and the log before this commit go
app.changes_of_current: {"cdc": "app.changes_of_current", "version": 12, "written_at": 7, "at": 7, "base": 7, "first": false, "commit": "log: of version 12", "operation": ""};

-- create cdc_erasure_certificates
select cast(null as string) as erasure_id, cast(null as timestamp) as erased_at, cast(null as string) as table_name, cast(null as bigint) as keys, cast(null as string) as role, cast(null as string) as relation, cast(null as bigint) as rows_removed, cast(null as bigint) as files_rewritten, cast(null as bigint) as files_removed, cast(null as bigint) as values_searched, cast(null as bigint) as files_searched, cast(null as bigint) as files_holding;

-- query
insert into app.cdc_erasure_certificates values ('<invocation_id>', current_timestamp(), 'raw.flagged', 3, 'raw', 'raw.flagged', 3, 2, 4, 1, 6, 0), ('<invocation_id>', current_timestamp(), 'raw.flagged', 3, 'tombstones', 'app.history_flagged_tombstones', 3, 4, 4, 1, 6, 0), ('<invocation_id>', current_timestamp(), 'raw.flagged', 3, 'changelog', 'app.changes_of_current', 3, 4, 4, 1, 6, 0), ('<invocation_id>', current_timestamp(), 'raw.flagged', 3, 'final', 'app.current_of_history', 3, 4, 4, 1, 6, 0), ('<invocation_id>', current_timestamp(), 'raw.flagged', 3, 'history', 'app.history_flagged', 3, 4, 4, 1, 6, 0);

-- query
update app.cdc_erasures set is_done = true where not is_done and table_name = 'raw.flagged';
