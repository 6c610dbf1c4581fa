select * except (batch)
from {{ ref('orders_expected') }}
where batch = {{ var('batch') }}
