{{ config(materialized='incremental', incremental_strategy='append') }}
select *
from {{ ref('orders_changes') }}
where
    batch <= {{ var('batch') }}
    {%- if is_incremental() %}
    and batch > (select max(batch) from {{ this }})
    {%- endif %}
