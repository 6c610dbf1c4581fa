{{ config(materialized='incremental', incremental_strategy='append') }}
select *
from {{ ref('customers_changes') }}
where
    batch <= {{ var('batch') }}
    {%- if is_incremental() %}
    and batch > (select max(batch) from {{ this }})
    {%- endif %}
