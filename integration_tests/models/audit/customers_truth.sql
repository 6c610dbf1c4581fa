select * except (batch)
from {{ ref('customers_expected') }}
where batch = {{ var('batch') }}
