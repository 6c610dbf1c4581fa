select
    `sku`,
    count(*) as current_rows
from app.current_without_history
where _cdc_deleted_at is null
group by `sku`
having
    count(*) > 1
    or `sku` is null
