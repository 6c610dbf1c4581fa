-- step events
with arrived_events as (
    select
        *,
        explode(if(`_ended_entity_id` is null, array(false), array(false, true))) as _is_move
    from (select * from app.resolved_wal2json_v2) as source_events
    where _resolved > 8 and _resolved <= 9
)

select
    if(_is_move, `_ended_entity_id`, `_entity_id`) as `_entity_id`,
    struct(
        `id` as `id`,
        `name` as `name`,
        `seen_at` as `seen_at`
    ) as _values,
    if(_is_move, 'M', _op) as _op,
    _seq,
    _ts,
    _event_id,
    _former_entity_ids,
    _resolved,
    _unset as _unset
from arrived_events;

-- step latest
with touched_keys as (
    select
        `_entity_id`,
        min(_seq) as _first_new
    from step_events
    where _op <> 'T'
    group by `_entity_id`
)

select
    history.`_entity_id`, history.`id`, history.`name`, history.`seen_at`, history.`_seq`, history.`_seq_end`, history.`_cdc_created_at`, history.`_cdc_seq`, history.`dbt_scd_id`, history.`dbt_updated_at`, history.`dbt_valid_from`, history.`dbt_valid_to`, history.`_event_id`, history.`_cdc_is_latest`, history._events,
    touched_keys._first_new > coalesce(element_at(history._events, -1)._seq, history._seq) as _is_in_order
from app.history_wal2json_v2 as history
inner join touched_keys on history.`_entity_id` <=> touched_keys.`_entity_id`
where
    history._cdc_is_latest
    and history.`_entity_id` between 1L and 9L and history.`_entity_id` in (1L, 5L, 9L);

-- step changes
with

ordered_versions as (
    select `_entity_id`, `id`, `name`, `seen_at`, `_seq`, `_seq_end`, `_cdc_created_at`, `_cdc_seq`, `_events`, `dbt_scd_id`, `dbt_updated_at`, `dbt_valid_from`, `dbt_valid_to`, `_event_id`, `_cdc_is_latest`
    from step_latest
    where _is_in_order
),

states as (
    select
        *,
        explode(if(_seq_end is null, array(false), array(false, true))) as _is_end_of_state
    from ordered_versions
),

state_events as (
    select
        `_entity_id`,
        struct(`id`, `name`, `seen_at`) as _values,
        if(_is_end_of_state, 'E', 'S') as _op,
        if(_is_end_of_state, _seq_end, _seq) as _seq,
        if(_is_end_of_state, dbt_valid_to, dbt_valid_from) as _ts,
        _event_id,
        cast(array() as array<string>) as _unset,
        false as _is_new,
        if(_is_end_of_state, null, struct(
            _cdc_created_at, _cdc_seq, dbt_updated_at, dbt_scd_id, _event_id, _events, struct(_seq, 'U' as _op, _event_id, dbt_valid_from as _ts, cast(array() as array<string>) as _unset) as _sole_event
        )) as _state
    from states
),

known_versions as (
    select /*+ coalesce(1) */ * from ordered_versions
),

truncates as (
    select
        _seq,
        _ts, _event_id
    from step_events
    where _op = 'T'
),

new_events as (
    select
        * except (_former_entity_ids, _resolved),
        true as _is_new
    from step_events
    where _op <> 'T'
),

events as (
    select /*+ coalesce(1) */ *
    from (
        select *, null as _state from new_events
        union all
        select * from state_events
    ) as all_events
),


timed_events as (
    select
        *,
        _op not in ('I', 'U', 'B', 'S') as _is_end
    from events
),

repeated_events as (
    select
        *,
        coalesce(
            lag(struct(_seq, _event_id, _is_end)) over (partition by `_entity_id` order by _seq, _is_end, _event_id, _is_new, _op) = struct(_seq, _event_id, _is_end),
            false
        ) as _is_repeated
    from timed_events
),

neighboring_events as (
    select
        * except (_is_repeated),
        lead(_seq) over (partition by `_entity_id` order by _seq, _is_end, _event_id, _is_new, _op) as __cdc_next_seq,
        lag(struct(_seq, _op, _is_end)) over (partition by `_entity_id` order by _seq, _is_end, _event_id, _is_new, _op) as __cdc_previous
    from repeated_events
    where not _is_repeated
),

marked_events as (
    select
        *,
        not _is_end and coalesce(__cdc_previous._is_end, true) as _is_birth,
        _is_end and not coalesce(__cdc_previous._is_end or __cdc_previous._op = 'B', true) as _is_close,
        not _is_end and _op <> 'B' as _is_image,
        not _is_end and coalesce(__cdc_previous._is_end or __cdc_previous._op = 'B', true) as _is_first
    from neighboring_events
),

resolved_events as (
    select
        * except (_values),
        if(_is_end or _op = 'B', null, struct(last_value(case when not _is_end and not array_contains(_unset, 'id') then named_struct('v', _values.`id`) when _is_end or _is_birth then named_struct('v', if(true, null, _values.`id`)) end, true) over (partition by `_entity_id` order by _seq, _is_end, _event_id, _is_new, _op).v as `id`, last_value(case when not _is_end and not array_contains(_unset, 'name') then named_struct('v', _values.`name`) when _is_end or _is_birth then named_struct('v', if(true, null, _values.`name`)) end, true) over (partition by `_entity_id` order by _seq, _is_end, _event_id, _is_new, _op).v as `name`, last_value(case when not _is_end and not array_contains(_unset, 'seen_at') then named_struct('v', _values.`seen_at`) when _is_end or _is_birth then named_struct('v', if(true, null, _values.`seen_at`)) end, true) over (partition by `_entity_id` order by _seq, _is_end, _event_id, _is_new, _op).v as `seen_at`)) as _values
    from marked_events
),

compared_events as (
    select
        *,
        _is_image and (_is_first or not (_values <=> lag(_values) over (partition by `_entity_id` order by _seq, _is_end, _event_id, _is_new, _op))) as _is_start,
        _is_image and (_is_first or not (_values <=> lag(_values) over (partition by `_entity_id` order by _seq, _is_end, _event_id, _is_new, _op))) as _is_change
    from resolved_events
),

numbered_events as (
    select
        *,
        row_number() over (partition by `_entity_id` order by _seq, _is_end, _event_id, _is_new, _op) as _ordinal,
        count_if(_is_start) over (partition by `_entity_id` order by _seq, _is_end, _event_id, _is_new, _op) as _version,
        _is_new and coalesce(_seq < max(if(_is_new, null, _seq)) over (partition by `_entity_id`), false) as _is_late,
        _is_new and (coalesce(_seq = __cdc_previous._seq, false) or coalesce(_seq = __cdc_next_seq, false)) as _is_tied,
        last_value(if(_is_birth, coalesce(_state._cdc_created_at, _ts), null), true)
            over (partition by `_entity_id` order by _seq, _is_end, _event_id, _is_new, _op) as _created
    from compared_events
),

grouped_events as (
    select
        `_entity_id`,
        greatest(_version, 1) as _version,
        min_by(_seq, _ordinal) filter (where _is_image) as _seq,
        min_by(_ts, _ordinal) filter (where _is_image) as _from,
        min_by(_event_id, _ordinal) filter (where _is_image) as _first_event_id,
        min_by(struct(_seq, _ts as _at), _ordinal) filter (where _is_close) as _close,
        max_by(
            if(_state is null, struct(_seq, _ts as _at), struct(_state._cdc_seq as _seq, _state.dbt_updated_at as _at)),
            _ordinal
        ) filter (where _is_change) as _change,
        min_by(_created, _ordinal) filter (where _is_image) as _created,
        max_by(_values, _ordinal) filter (where _is_image) as _values,
        struct(
            sum(if(_is_new and _is_birth, 1, 0)) as inserted,
            sum(if(_is_new and _is_change and not _is_birth, 1, 0)) as updated,
            sum(if(_is_new and _op = 'D' and _is_close, 1, 0)) as deleted,
            sum(if(_is_new and if(_op = 'D', not _is_close, _is_image and not _is_change), 1, 0)) as unchanged,
            sum(if(_is_late and _op <> 'M', 1, 0)) as late,
            sum(if(_is_tied and _op <> 'M', 1, 0)) as tied
        ) as _effects,
        max_by(_state, _ordinal) filter (where _state is not null) as _state,
        sort_array(collect_list(struct(
            _seq,
            if(_op = 'I', 'U', _op) as _op,
            _event_id,
            _ts, if(_is_end, cast(array() as array<string>), _unset) as _unset
        )) filter (where _op not in ('S', 'E') and (_op <> 'T' or _is_close))) as _new_events
    from numbered_events
    group by `_entity_id`, greatest(_version, 1)
),

remembered_events as (
    select
        * except (_new_events),
        case
            when _state is null then _new_events
            when size(_new_events) = 0 then _state._events
            else concat(coalesce(_state._events, array(_state._sole_event)), _new_events)
        end as _events
    from grouped_events
),

versions as (
    select
        `_entity_id`,
        _values.`id`,
        _values.`name`,
        _values.`seen_at`,
        _seq,
        coalesce(_close._seq, lead(_seq) over (partition by `_entity_id` order by _version)) as _seq_end,
        _created as _cdc_created_at,
        _change._seq as _cdc_seq,
        if(size(_events) = 1 and _events[0]._op = 'U' and size(_events[0]._unset) = 0, null, _events) as _events,
        _effects,
        if(
            _seq is null,
            null,
            coalesce(_state.dbt_scd_id, md5(to_json(struct(`_entity_id` as key_1, _seq, _first_event_id as _first_event_id), map('timeZone', 'UTC'))))
        ) as dbt_scd_id,
        _change._at as dbt_updated_at,
        _from as dbt_valid_from,
        coalesce(_close._at, lead(_from) over (partition by `_entity_id` order by _version)) as dbt_valid_to,
        coalesce(_state._event_id, _first_event_id) as _event_id,
        lead(_version) over (partition by `_entity_id` order by _version) is null as _cdc_is_latest
    from remembered_events
),


changes as (
    select /*+ coalesce(1) */
        case
            when versions.dbt_scd_id is null and known.dbt_scd_id is null then 'tombstone'
            when known.dbt_scd_id is null then 'insert'
            when versions.dbt_scd_id is null then 'delete'
            else 'update'
        end as dbt_change_type,
        coalesce(versions.`_entity_id`, known.`_entity_id`) as `_entity_id`,
        versions.`id`,
        versions.`name`,
        versions.`seen_at`,
        versions.`_seq`,
        versions.`_seq_end`,
        versions.`_cdc_created_at`,
        versions.`_cdc_seq`,
        versions.`_events`,
        coalesce(versions.`dbt_scd_id`, known.`dbt_scd_id`) as `dbt_scd_id`,
        versions.`dbt_updated_at`,
        versions.`dbt_valid_from`,
        versions.`dbt_valid_to`,
        versions.`_event_id`,
        versions.`_cdc_is_latest`,
        known._cdc_is_latest as _was_latest,
        known.dbt_scd_id is not null and known._seq_end is null as _was_open,
        versions.dbt_scd_id is not null and versions._seq_end is null as _is_open,
        struct(known.`id`) as __cdc_former_key,
        not (struct(versions.`_entity_id`, versions.`id`, versions.`name`, versions.`seen_at`, versions.`_seq_end`, versions.`_cdc_created_at`, versions.`_cdc_seq`, versions.`dbt_updated_at`) <=> struct(known.`_entity_id`, known.`id`, known.`name`, known.`seen_at`, known.`_seq_end`, known.`_cdc_created_at`, known.`_cdc_seq`, known.`dbt_updated_at`)) as _is_visible,
        versions._effects
    from versions
    full outer join known_versions as known
        on
            versions.dbt_scd_id = known.dbt_scd_id
            and versions.`_entity_id` <=> known.`_entity_id`
    where not (struct(versions.`_entity_id`, versions.`id`, versions.`name`, versions.`seen_at`, versions.`_seq`, versions.`_seq_end`, versions.`_cdc_created_at`, versions.`_cdc_seq`, versions.`_events`, versions.`dbt_scd_id`, versions.`dbt_updated_at`, versions.`dbt_valid_from`, versions.`dbt_valid_to`, versions.`_event_id`, versions.`_cdc_is_latest`) <=> struct(known.`_entity_id`, known.`id`, known.`name`, known.`seen_at`, known.`_seq`, known.`_seq_end`, known.`_cdc_created_at`, known.`_cdc_seq`, known.`_events`, known.`dbt_scd_id`, known.`dbt_updated_at`, known.`dbt_valid_from`, known.`dbt_valid_to`, known.`_event_id`, known.`_cdc_is_latest`))
)

select
    *,case
        when _is_open and _is_visible then 'U'
        when _was_open and not max(_is_open) over (partition by `_entity_id`) then 'D'
    end as _current_op,
    max(_was_open) over (partition by `_entity_id`) as _is_known
from changes;

-- rows to append, or to put in place of others
select `_entity_id`, `id`, `name`, `seen_at`, `_seq`, `_seq_end`, `_cdc_created_at`, `_cdc_seq`, `_events`, `dbt_scd_id`, `dbt_updated_at`, `dbt_valid_from`, `dbt_valid_to`, `_event_id`, `_cdc_is_latest` from step_changes where dbt_change_type in ('insert', 'update');

-- merge
merge into app.history_wal2json_v2 as DBT_INTERNAL_DEST
using step_changes as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.dbt_scd_id = DBT_INTERNAL_SOURCE.dbt_scd_id
    and DBT_INTERNAL_SOURCE.dbt_change_type <> 'tombstone'
    and DBT_INTERNAL_DEST.`_entity_id` between 1L and 9L and DBT_INTERNAL_DEST.`_entity_id` in (1L, 5L, 9L)
    and DBT_INTERNAL_DEST.`_entity_id` <=> DBT_INTERNAL_SOURCE.`_entity_id`
when matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'delete' then delete
when matched then update set `_entity_id` = DBT_INTERNAL_SOURCE.`_entity_id`, `id` = DBT_INTERNAL_SOURCE.`id`, `name` = DBT_INTERNAL_SOURCE.`name`, `seen_at` = DBT_INTERNAL_SOURCE.`seen_at`, `_seq` = DBT_INTERNAL_SOURCE.`_seq`, `_seq_end` = DBT_INTERNAL_SOURCE.`_seq_end`, `_cdc_created_at` = DBT_INTERNAL_SOURCE.`_cdc_created_at`, `_cdc_seq` = DBT_INTERNAL_SOURCE.`_cdc_seq`, `_events` = DBT_INTERNAL_SOURCE.`_events`, `dbt_scd_id` = DBT_INTERNAL_SOURCE.`dbt_scd_id`, `dbt_updated_at` = DBT_INTERNAL_SOURCE.`dbt_updated_at`, `dbt_valid_from` = DBT_INTERNAL_SOURCE.`dbt_valid_from`, `dbt_valid_to` = DBT_INTERNAL_SOURCE.`dbt_valid_to`, `_event_id` = DBT_INTERNAL_SOURCE.`_event_id`, `_cdc_is_latest` = DBT_INTERNAL_SOURCE.`_cdc_is_latest`
when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert' then insert (`_entity_id`, `id`, `name`, `seen_at`, `_seq`, `_seq_end`, `_cdc_created_at`, `_cdc_seq`, `_events`, `dbt_scd_id`, `dbt_updated_at`, `dbt_valid_from`, `dbt_valid_to`, `_event_id`, `_cdc_is_latest`) values (DBT_INTERNAL_SOURCE.`_entity_id`, DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`name`, DBT_INTERNAL_SOURCE.`seen_at`, DBT_INTERNAL_SOURCE.`_seq`, DBT_INTERNAL_SOURCE.`_seq_end`, DBT_INTERNAL_SOURCE.`_cdc_created_at`, DBT_INTERNAL_SOURCE.`_cdc_seq`, DBT_INTERNAL_SOURCE.`_events`, DBT_INTERNAL_SOURCE.`dbt_scd_id`, DBT_INTERNAL_SOURCE.`dbt_updated_at`, DBT_INTERNAL_SOURCE.`dbt_valid_from`, DBT_INTERNAL_SOURCE.`dbt_valid_to`, DBT_INTERNAL_SOURCE.`_event_id`, DBT_INTERNAL_SOURCE.`_cdc_is_latest`);
