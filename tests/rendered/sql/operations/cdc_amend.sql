with current_rows as (
    select `order_id`, `line`, `status`, `amount`, _cdc_created_at as `_cdc_created_at`, dbt_updated_at as `_cdc_updated_at`, _cdc_seq as `_cdc_seq`, struct(coalesce(element_at(_events, -1)._seq, _seq) as _seq, coalesce(array_max(filter(_events, event -> event._seq = element_at(_events, -1)._seq and event._op in ('I', 'U'))._event_id), _event_id) as _event_id, coalesce(element_at(_events, -1)._ts, dbt_valid_from) as _ts) as __cdc_last from app.history_flagged where _cdc_is_latest and _seq_end is null
),

matching_rows as (
    select
        `order_id`,
        `line`,
        __cdc_last,
        struct(('closed'
) as value) as __cdc_given_1,
        `status` as __cdc_old_1,
        struct((amount / 2
) as value) as __cdc_given_2,
        `amount` as __cdc_old_2
    from current_rows where ((status = 'old'
))
),

changed_rows as (
    select
        *,
        try_cast(__cdc_given_1.value as string) as __cdc_new_1,
        try_cast(__cdc_given_2.value as decimal(12,2)) as __cdc_new_2
    from matching_rows
),

judged_rows as (
    select
        *,
        array_compact(array(case when __cdc_given_1.value is not null and not (__cdc_new_1 is not null and try_cast(__cdc_new_1 as double) <=> __cdc_given_1.value) then 'status' end, case when __cdc_given_2.value is not null and not (__cdc_new_2 is not null and try_cast(__cdc_new_2 as double) <=> __cdc_given_2.value) then 'amount' end)) as __cdc_misfits
    from changed_rows
)

select
    `order_id`, `line`,
    __cdc_new_1 as `status`,
    __cdc_new_2 as `amount`,
    'U' as _op,
    __cdc_last._seq as _seq,
    greatest(__cdc_last._ts, cast(current_timestamp() as timestamp)) as _ts,
    __cdc_last._event_id + 1 + pmod(
        xxhash64('U', 'status', 'amount', __cdc_new_1 is null, __cdc_new_1, __cdc_new_2 is null, __cdc_new_2, `order_id`, `line`), greatest(9223372036854775807 div 256 - __cdc_last._event_id div 256, 1)
    ) as _event_id,
    __cdc_misfits
from judged_rows
where size(__cdc_misfits) > 0 or not (struct(__cdc_old_1 as value_1, __cdc_old_2 as value_2) <=> struct(__cdc_new_1 as value_1, __cdc_new_2 as value_2))
