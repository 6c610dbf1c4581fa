-- query
with remembering_versions as (
    select
        * except (_events),
        coalesce(_events, array(struct(_seq, 'U' as _op, _event_id, dbt_valid_from as _ts, cast(array() as array<string>) as _unset, struct(`amount`) as _image))) as _events
    from app.history_flagged
),

numbered_versions as (
    select
        *,
        row_number() over (partition by `order_id`, `line` order by _seq desc) as _age
    from remembering_versions
),

dated_versions as (
    select
        *,
        _seq_end is not null
        and _age > 3
        and dbt_valid_to < current_timestamp() - make_dt_interval(90)
            as _may_be_dropped
    from numbered_versions
),ranked_versions as (
    select
        * except (_may_be_dropped),
        min(_may_be_dropped) over (partition by `order_id`, `line` order by _seq, _seq_end nulls last) as _is_dropped
    from dated_versions
),

kept_marks as (
    select
        `order_id`, `line`,
        array_max(flatten(collect_list(filter(_events, event -> event._op in ('D', 'M'))) filter (where _is_dropped))) as _end,
        min_by(dbt_scd_id, _seq) filter (where not _is_dropped) as _first_id,
        min_by(_cdc_created_at, _seq) filter (where not _is_dropped) as _created,
        max_by(_cdc_created_at, _seq) filter (where _is_dropped) as _dropped_created,
        collect_list(struct(
            _cdc_created_at,
            coalesce(array_min(filter(_events, event -> event._op = 'B'))._seq, _seq) as _seq
        )) filter (where _is_dropped) as _births
    from ranked_versions
    group by `order_id`, `line`
    having count_if(_is_dropped) > 0
),

compacted_versions as (
    select
        `order_id`, `line`,
        dbt_scd_id,
        null as _events
    from ranked_versions
    where _is_dropped
    union all
    select
        versions.`order_id`, versions.`line`,
        versions.dbt_scd_id,
        concat(
            array_compact(array(_end)),
            if(
                _created <=> _dropped_created and (_end is null or _end._seq < versions._seq),
                array(struct(
                    array_min(filter(_births, birth -> birth._cdc_created_at <=> _created))._seq as _seq,
                    'B' as _op,
                    cast(0 as bigint) as _event_id,
                    _created as _ts,
                    cast(array('status', 'amount') as array<string>) as _unset,
                    if(true, null, struct(`amount`)) as _image
                )),
                cast(array() as array<struct<_seq:bigint,_op:string,_event_id:bigint,_ts:timestamp,_unset:array<string>,_image:struct<a:int>>>)
            ),
            transform(versions._events, event -> if(
                event._op in ('I', 'U')
                and event._event_id = filter(versions._events, other -> other._op in ('I', 'U'))[0]._event_id,
                struct(
                    event._seq,
                    event._op,
                    event._event_id,
                    event._ts,
                    cast(array() as array<string>) as _unset,
                    event._image
                ),
                event
            ))
        ) as _events
    from ranked_versions as versions
    inner join kept_marks on versions.dbt_scd_id = kept_marks._first_id and versions.`order_id` <=> kept_marks.`order_id` and versions.`line` <=> kept_marks.`line`
) select count(*), count_if(_is_dropped) from ranked_versions;

-- query
alter table app.history_flagged set tblproperties ('cdc.compacted' = 'true');

-- create history_flagged_tombstones
with remembering_versions as (
    select
        * except (_events),
        coalesce(_events, array(struct(_seq, 'U' as _op, _event_id, dbt_valid_from as _ts, cast(array() as array<string>) as _unset, struct(`amount`) as _image))) as _events
    from app.history_flagged
),

numbered_versions as (
    select
        *,
        row_number() over (partition by `order_id`, `line` order by _seq desc) as _age
    from remembering_versions
),

dated_versions as (
    select
        *,
        _seq_end is not null
        and _age > 3
        and dbt_valid_to < current_timestamp() - make_dt_interval(90)
            as _may_be_dropped
    from numbered_versions
),ranked_versions as (
    select
        * except (_may_be_dropped),
        min(_may_be_dropped) over (partition by `order_id`, `line` order by _seq, _seq_end nulls last) as _is_dropped
    from dated_versions
),

kept_marks as (
    select
        `order_id`, `line`,
        array_max(flatten(collect_list(filter(_events, event -> event._op in ('D', 'M'))) filter (where _is_dropped))) as _end,
        min_by(dbt_scd_id, _seq) filter (where not _is_dropped) as _first_id,
        min_by(_cdc_created_at, _seq) filter (where not _is_dropped) as _created,
        max_by(_cdc_created_at, _seq) filter (where _is_dropped) as _dropped_created,
        collect_list(struct(
            _cdc_created_at,
            coalesce(array_min(filter(_events, event -> event._op = 'B'))._seq, _seq) as _seq
        )) filter (where _is_dropped) as _births
    from ranked_versions
    group by `order_id`, `line`
    having count_if(_is_dropped) > 0
),

compacted_versions as (
    select
        `order_id`, `line`,
        dbt_scd_id,
        null as _events
    from ranked_versions
    where _is_dropped
    union all
    select
        versions.`order_id`, versions.`line`,
        versions.dbt_scd_id,
        concat(
            array_compact(array(_end)),
            if(
                _created <=> _dropped_created and (_end is null or _end._seq < versions._seq),
                array(struct(
                    array_min(filter(_births, birth -> birth._cdc_created_at <=> _created))._seq as _seq,
                    'B' as _op,
                    cast(0 as bigint) as _event_id,
                    _created as _ts,
                    cast(array('status', 'amount') as array<string>) as _unset,
                    if(true, null, struct(`amount`)) as _image
                )),
                cast(array() as array<struct<_seq:bigint,_op:string,_event_id:bigint,_ts:timestamp,_unset:array<string>,_image:struct<a:int>>>)
            ),
            transform(versions._events, event -> if(
                event._op in ('I', 'U')
                and event._event_id = filter(versions._events, other -> other._op in ('I', 'U'))[0]._event_id,
                struct(
                    event._seq,
                    event._op,
                    event._event_id,
                    event._ts,
                    cast(array() as array<string>) as _unset,
                    event._image
                ),
                event
            ))
        ) as _events
    from ranked_versions as versions
    inner join kept_marks on versions.dbt_scd_id = kept_marks._first_id and versions.`order_id` <=> kept_marks.`order_id` and versions.`line` <=> kept_marks.`line`
)
            select
                `order_id`, `line`,
                'D' as _op,
                _end._seq,
                _end._ts,
                _end._event_id
            from kept_marks
            where _end is not null and _first_id is null;

-- add_tombstones
insert into app.history_flagged_tombstones
        select found.*
        from (with remembering_versions as (
    select
        * except (_events),
        coalesce(_events, array(struct(_seq, 'U' as _op, _event_id, dbt_valid_from as _ts, cast(array() as array<string>) as _unset, struct(`amount`) as _image))) as _events
    from app.history_flagged
),

numbered_versions as (
    select
        *,
        row_number() over (partition by `order_id`, `line` order by _seq desc) as _age
    from remembering_versions
),

dated_versions as (
    select
        *,
        _seq_end is not null
        and _age > 3
        and dbt_valid_to < current_timestamp() - make_dt_interval(90)
            as _may_be_dropped
    from numbered_versions
),ranked_versions as (
    select
        * except (_may_be_dropped),
        min(_may_be_dropped) over (partition by `order_id`, `line` order by _seq, _seq_end nulls last) as _is_dropped
    from dated_versions
),

kept_marks as (
    select
        `order_id`, `line`,
        array_max(flatten(collect_list(filter(_events, event -> event._op in ('D', 'M'))) filter (where _is_dropped))) as _end,
        min_by(dbt_scd_id, _seq) filter (where not _is_dropped) as _first_id,
        min_by(_cdc_created_at, _seq) filter (where not _is_dropped) as _created,
        max_by(_cdc_created_at, _seq) filter (where _is_dropped) as _dropped_created,
        collect_list(struct(
            _cdc_created_at,
            coalesce(array_min(filter(_events, event -> event._op = 'B'))._seq, _seq) as _seq
        )) filter (where _is_dropped) as _births
    from ranked_versions
    group by `order_id`, `line`
    having count_if(_is_dropped) > 0
),

compacted_versions as (
    select
        `order_id`, `line`,
        dbt_scd_id,
        null as _events
    from ranked_versions
    where _is_dropped
    union all
    select
        versions.`order_id`, versions.`line`,
        versions.dbt_scd_id,
        concat(
            array_compact(array(_end)),
            if(
                _created <=> _dropped_created and (_end is null or _end._seq < versions._seq),
                array(struct(
                    array_min(filter(_births, birth -> birth._cdc_created_at <=> _created))._seq as _seq,
                    'B' as _op,
                    cast(0 as bigint) as _event_id,
                    _created as _ts,
                    cast(array('status', 'amount') as array<string>) as _unset,
                    if(true, null, struct(`amount`)) as _image
                )),
                cast(array() as array<struct<_seq:bigint,_op:string,_event_id:bigint,_ts:timestamp,_unset:array<string>,_image:struct<a:int>>>)
            ),
            transform(versions._events, event -> if(
                event._op in ('I', 'U')
                and event._event_id = filter(versions._events, other -> other._op in ('I', 'U'))[0]._event_id,
                struct(
                    event._seq,
                    event._op,
                    event._event_id,
                    event._ts,
                    cast(array() as array<string>) as _unset,
                    event._image
                ),
                event
            ))
        ) as _events
    from ranked_versions as versions
    inner join kept_marks on versions.dbt_scd_id = kept_marks._first_id and versions.`order_id` <=> kept_marks.`order_id` and versions.`line` <=> kept_marks.`line`
)
            select
                `order_id`, `line`,
                'D' as _op,
                _end._seq,
                _end._ts,
                _end._event_id
            from kept_marks
            where _end is not null and _first_id is null) as found
        left anti join app.history_flagged_tombstones as known
            on
                known.`order_id` <=> found.`order_id` and known.`line` <=> found.`line`
                and known._event_id = found._event_id;

-- query
set spark.databricks.delta.commitInfo.userMetadata={"cdc": "app.history_flagged", "read_to": 8, "written_at": 7, "at": 7, "base": 7, "operation": "MERGE"};

-- query
merge into app.history_flagged as DBT_INTERNAL_DEST
using (with remembering_versions as (
    select
        * except (_events),
        coalesce(_events, array(struct(_seq, 'U' as _op, _event_id, dbt_valid_from as _ts, cast(array() as array<string>) as _unset, struct(`amount`) as _image))) as _events
    from app.history_flagged
),

numbered_versions as (
    select
        *,
        row_number() over (partition by `order_id`, `line` order by _seq desc) as _age
    from remembering_versions
),

dated_versions as (
    select
        *,
        _seq_end is not null
        and _age > 3
        and dbt_valid_to < current_timestamp() - make_dt_interval(90)
            as _may_be_dropped
    from numbered_versions
),ranked_versions as (
    select
        * except (_may_be_dropped),
        min(_may_be_dropped) over (partition by `order_id`, `line` order by _seq, _seq_end nulls last) as _is_dropped
    from dated_versions
),

kept_marks as (
    select
        `order_id`, `line`,
        array_max(flatten(collect_list(filter(_events, event -> event._op in ('D', 'M'))) filter (where _is_dropped))) as _end,
        min_by(dbt_scd_id, _seq) filter (where not _is_dropped) as _first_id,
        min_by(_cdc_created_at, _seq) filter (where not _is_dropped) as _created,
        max_by(_cdc_created_at, _seq) filter (where _is_dropped) as _dropped_created,
        collect_list(struct(
            _cdc_created_at,
            coalesce(array_min(filter(_events, event -> event._op = 'B'))._seq, _seq) as _seq
        )) filter (where _is_dropped) as _births
    from ranked_versions
    group by `order_id`, `line`
    having count_if(_is_dropped) > 0
),

compacted_versions as (
    select
        `order_id`, `line`,
        dbt_scd_id,
        null as _events
    from ranked_versions
    where _is_dropped
    union all
    select
        versions.`order_id`, versions.`line`,
        versions.dbt_scd_id,
        concat(
            array_compact(array(_end)),
            if(
                _created <=> _dropped_created and (_end is null or _end._seq < versions._seq),
                array(struct(
                    array_min(filter(_births, birth -> birth._cdc_created_at <=> _created))._seq as _seq,
                    'B' as _op,
                    cast(0 as bigint) as _event_id,
                    _created as _ts,
                    cast(array('status', 'amount') as array<string>) as _unset,
                    if(true, null, struct(`amount`)) as _image
                )),
                cast(array() as array<struct<_seq:bigint,_op:string,_event_id:bigint,_ts:timestamp,_unset:array<string>,_image:struct<a:int>>>)
            ),
            transform(versions._events, event -> if(
                event._op in ('I', 'U')
                and event._event_id = filter(versions._events, other -> other._op in ('I', 'U'))[0]._event_id,
                struct(
                    event._seq,
                    event._op,
                    event._event_id,
                    event._ts,
                    cast(array() as array<string>) as _unset,
                    event._image
                ),
                event
            ))
        ) as _events
    from ranked_versions as versions
    inner join kept_marks on versions.dbt_scd_id = kept_marks._first_id and versions.`order_id` <=> kept_marks.`order_id` and versions.`line` <=> kept_marks.`line`
) select * from compacted_versions) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.dbt_scd_id = DBT_INTERNAL_SOURCE.dbt_scd_id
    and DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
when matched and DBT_INTERNAL_SOURCE._events is null then delete
when matched then update set _events = DBT_INTERNAL_SOURCE._events;

-- query
reset spark.databricks.delta.commitInfo.userMetadata;
