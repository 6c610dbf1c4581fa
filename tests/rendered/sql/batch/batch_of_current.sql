-- step changes, where the tables are compared as a whole
with open_versions as (
    select
        * except (
            _seq, _seq_end, _cdc_created_at, _cdc_seq, _events, dbt_scd_id, dbt_updated_at, dbt_valid_from, dbt_valid_to, _event_id,
            _cdc_is_latest
        ),
        _cdc_created_at,
        dbt_updated_at as _cdc_updated_at,
        _cdc_seq
    from app.history_flagged
    where
        _cdc_is_latest
        and _seq_end is null
),

known as (
    select
        *,
        true as _cdc_is_known,
        row_number() over (partition by `order_id`, `line` order by `order_id`, `line`) as _cdc_copy,
        count(*) over (partition by `order_id`, `line`) > 1 as _cdc_is_repeated
    from app.current_of_history
),

compared as (
    select
        coalesce(open_versions.`order_id`, known.`order_id`) as `order_id`,
        coalesce(open_versions.`line`, known.`line`) as `line`,
        open_versions.`status`,
        open_versions.`amount`,
        open_versions.`_cdc_created_at`,
        open_versions.`_cdc_updated_at`,
        open_versions.`_cdc_seq`,
        known._cdc_is_known is not null as _cdc_was_known,
        explode(case
            when open_versions._cdc_seq is null then array('D')
            when known._cdc_is_repeated then array('D', 'U')
            else array('U')
        end) as _current_op,
        coalesce(known._cdc_is_repeated, false) as _cdc_is_repeated
    from open_versions
    full outer join (select * from known where _cdc_copy = 1) as known on open_versions.`order_id` <=> known.`order_id` and open_versions.`line` <=> known.`line`
    where not (struct(open_versions.`order_id`, open_versions.`line`, open_versions.`status`, open_versions.`amount`, open_versions.`_cdc_created_at`, open_versions.`_cdc_updated_at`, open_versions.`_cdc_seq`) <=> struct(known.`order_id`, known.`line`, known.`status`, known.`amount`, known.`_cdc_created_at`, known.`_cdc_updated_at`, known.`_cdc_seq`)) or known._cdc_is_repeated
)

select
    `order_id`, `line`, `status`, `amount`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`,
    _current_op,
    _cdc_was_known and (_current_op = 'D' or not _cdc_is_repeated) as _is_known
from compared;

-- step changes
select
    changes.`order_id`, changes.`line`, changes.`status`, changes.`amount`, changes.`_cdc_created_at`, changes.`_cdc_updated_at`, changes.`_cdc_seq`,
    changes._current_op,
    known._cdc_is_known is not null as _is_known
from (with changes as (
    select
        *,row_number() over (
            partition by dbt_scd_id order by _commit_version desc, _change_type in ('delete', 'update_preimage')
        ) as _cdc_newest
    from table_changes('app.history_flagged', 8, 9)
    where _seq_end is null or _change_type not in ('delete', 'update_preimage')
),

candidates as (
    select
        *,
        _cdc_newest = 1 and _seq_end is null and _change_type in ('insert', 'update_postimage') as _cdc_is_current
    from changes
),

last_changes as (
    select
        *,
        row_number() over (partition by `order_id`, `line` order by _cdc_is_current desc, _commit_version desc) as _cdc_latest
    from candidates
    where _cdc_is_current or _seq_end is null
)

select
    * except (
        _seq, _seq_end, _cdc_created_at, _cdc_seq, _events, dbt_scd_id, dbt_updated_at, dbt_valid_from, dbt_valid_to, _event_id,
        _cdc_is_latest, _cdc_newest, _cdc_latest, _cdc_is_current, _change_type, _commit_version, _commit_timestamp
    ),
    _cdc_created_at,
    dbt_updated_at as _cdc_updated_at,
    _cdc_seq,
    if(_cdc_is_current, 'U', 'D') as _current_op
from last_changes
where _cdc_latest = 1) as changes
left join (select *, true as _cdc_is_known from app.current_of_history) as known on known.`order_id` <=> changes.`order_id` and known.`line` <=> changes.`line`
where
    (changes._current_op = 'U' and (known._cdc_is_known is null or not struct(changes.`order_id`, changes.`line`, changes.`status`, changes.`amount`, changes.`_cdc_created_at`, changes.`_cdc_updated_at`, changes.`_cdc_seq`) <=> struct(known.`order_id`, known.`line`, known.`status`, known.`amount`, known.`_cdc_created_at`, known.`_cdc_updated_at`, known.`_cdc_seq`)))
    or (changes._current_op = 'D' and known._cdc_is_known);

-- rows to append, or to put in place of others
select `order_id`, `line`, `status`, `amount`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq` from (select `order_id`, `line`, `status`, `amount`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, _current_op, _is_known from step_changes where _current_op is not null) where _current_op = 'U';

-- merge
merge into app.current_of_history as DBT_INTERNAL_DEST
using (select `order_id`, `line`, `status`, `amount`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`, _current_op, _is_known from step_changes where _current_op is not null) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`order_id` <=> DBT_INTERNAL_SOURCE.`order_id`
    and DBT_INTERNAL_DEST.`line` <=> DBT_INTERNAL_SOURCE.`line`
when matched and DBT_INTERNAL_SOURCE._current_op = 'D' then delete
when matched then update set `order_id` = DBT_INTERNAL_SOURCE.`order_id`, `line` = DBT_INTERNAL_SOURCE.`line`, `status` = DBT_INTERNAL_SOURCE.`status`, `amount` = DBT_INTERNAL_SOURCE.`amount`, `_cdc_created_at` = DBT_INTERNAL_SOURCE.`_cdc_created_at`, `_cdc_updated_at` = DBT_INTERNAL_SOURCE.`_cdc_updated_at`, `_cdc_seq` = DBT_INTERNAL_SOURCE.`_cdc_seq`
when not matched and DBT_INTERNAL_SOURCE._current_op = 'U' then insert (`order_id`, `line`, `status`, `amount`, `_cdc_created_at`, `_cdc_updated_at`, `_cdc_seq`) values (DBT_INTERNAL_SOURCE.`order_id`, DBT_INTERNAL_SOURCE.`line`, DBT_INTERNAL_SOURCE.`status`, DBT_INTERNAL_SOURCE.`amount`, DBT_INTERNAL_SOURCE.`_cdc_created_at`, DBT_INTERNAL_SOURCE.`_cdc_updated_at`, DBT_INTERNAL_SOURCE.`_cdc_seq`);
