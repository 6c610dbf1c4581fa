with versions as (
    select
        order_id,
        status,
        dbt_valid_from,
        dbt_valid_to,
        _seq,
        _seq_end,
        lag(status) over (partition by order_id order by _seq) as previous_status,
        lag(_seq_end) over (partition by order_id order by _seq) as previous_end
    from {{ ref('orders_history') }}
),

-- A version that changes another column stays in its status. An order that was deleted and entered again begins a new one.
numbered_versions as (
    select
        *,
        count_if(not (status <=> previous_status and _seq <=> previous_end))
            over (partition by order_id order by _seq) as visit
    from versions
),

visits as (
    select
        order_id,
        visit,
        status,
        min_by(dbt_valid_from, _seq) as entered_at,
        max_by(dbt_valid_to, _seq) as left_at
    from numbered_versions
    group by order_id, visit, status
)

select
    coalesce(nullif(status, ''), 'no status') as status,
    count(*) as visits,
    count_if(left_at is null) as still_open,
    median(timestampdiff(microsecond, entered_at, left_at)) / 1e6 as median_seconds,
    max(timestampdiff(microsecond, entered_at, left_at)) / 1e6 as longest_seconds
from visits
group by coalesce(nullif(status, ''), 'no status')
