with counted_rows as (
    select
        `order_id`, `line`, `status`,
        1 as _rows
    from app.resolved_wal2json_v2
    union all
    select
        `order_id`, `line`, `status`,
        -1 as _rows
    from app.current_of_history
)

select
    `order_id`, `line`, `status`,
    sum(_rows) as missing_rows
from counted_rows
group by `order_id`, `line`, `status`
having sum(_rows) <> 0
