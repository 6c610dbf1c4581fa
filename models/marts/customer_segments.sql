-- The segment of a customer is the language that the profile states.
select
    customer_id,
    coalesce(get_json_object(profile, '$.lang'), 'no language') as segment,
    dbt_valid_from,
    dbt_valid_to,
    _seq
from {{ ref('customers_history') }}
