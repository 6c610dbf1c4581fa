select
    `order_id`, `line`,
    count(*) as current_rows
from app.current_of_history
group by `order_id`, `line`
having
    count(*) > 1
    or `order_id` is null
    or `line` is null
