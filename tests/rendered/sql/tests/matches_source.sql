with expected_rows as (
    select
        `order_id`, `line`, `status`,
        true as _is_there
    from app.resolved_wal2json_v2

),

actual_rows as (
    select
        `order_id`, `line`, `status`,
        true as _is_there
    from app.current_of_history

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
