with differing_buckets as (
    with left_buckets as (
        select
            pmod(xxhash64(cast(`order_id` as string), cast(`line` as string)), 256) as _bucket,
            count(*) as _rows,
            sum(cast(xxhash64(`order_id` is null, `order_id`, `line` is null, `line`, `status` is null, `status`) as decimal(20, 0))) as _sum,
            bit_xor(xxhash64(`order_id` is null, `order_id`, `line` is null, `line`, `status` is null, `status`)) as _xor
        from app.current_of_history
        group by pmod(xxhash64(cast(`order_id` as string), cast(`line` as string)), 256)
    ),

    right_buckets as (
        select
            pmod(xxhash64(cast(`order_id` as string), cast(`line` as string)), 256) as _bucket,
            count(*) as _rows,
            sum(cast(xxhash64(`order_id` is null, `order_id`, `line` is null, `line`, `status` is null, `status`) as decimal(20, 0))) as _sum,
            bit_xor(xxhash64(`order_id` is null, `order_id`, `line` is null, `line`, `status` is null, `status`)) as _xor
        from app.resolved_wal2json_v2
        group by pmod(xxhash64(cast(`order_id` as string), cast(`line` as string)), 256)
    )

    select coalesce(left_buckets._bucket, right_buckets._bucket) as _bucket
    from left_buckets
    full outer join right_buckets on left_buckets._bucket = right_buckets._bucket
    where
        not (
            struct(left_buckets._rows, left_buckets._sum, left_buckets._xor)
            <=> struct(right_buckets._rows, right_buckets._sum, right_buckets._xor)
        )
),

expected_rows as (
    select
        `order_id`, `line`, `status`,
        true as _is_there
    from app.resolved_wal2json_v2
    where pmod(xxhash64(cast(`order_id` as string), cast(`line` as string)), 256) in (select _bucket from differing_buckets)
),

actual_rows as (
    select
        `order_id`, `line`, `status`,
        true as _is_there
    from app.current_of_history
    where pmod(xxhash64(cast(`order_id` as string), cast(`line` as string)), 256) in (select _bucket from differing_buckets)
)

select
    coalesce(expected_rows.`order_id`, actual_rows.`order_id`) as `order_id`,
    coalesce(expected_rows.`line`, actual_rows.`line`) as `line`,
    case
        when actual_rows._is_there is null then 'missing'
        when expected_rows._is_there is null then 'not in the source'
        else 'different'
    end as difference,
    array_join(array_compact(array(
        if(expected_rows.`order_id` <=> actual_rows.`order_id`, null, 'order_id'),
        if(expected_rows.`line` <=> actual_rows.`line`, null, 'line'),
        if(expected_rows.`status` <=> actual_rows.`status`, null, 'status')
    )), ', ') as different_columns
from expected_rows
full outer join actual_rows on expected_rows.`order_id` <=> actual_rows.`order_id` and expected_rows.`line` <=> actual_rows.`line`
where
    not (
        struct(expected_rows._is_there, expected_rows.`order_id`, expected_rows.`line`, expected_rows.`status`)
        <=> struct(actual_rows._is_there, actual_rows.`order_id`, actual_rows.`line`, actual_rows.`status`)
    )
