with valid_versions as (
    select *
    from app.history_flagged
    where
        _seq <= (17)
        and (_seq_end is null or _seq_end > (17))
),
last_versions as (
    select
        *,
        row_number() over (partition by `order_id`, `line` order by _seq desc) as _cdc_latest
    from valid_versions
)

select
    * except (
        _seq, _seq_end, _cdc_created_at, _cdc_seq, _events, dbt_scd_id, dbt_updated_at, dbt_valid_from, dbt_valid_to, _event_id,
        _cdc_is_latest, _cdc_latest
    ),
    _cdc_created_at,
    dbt_updated_at as _cdc_updated_at,
    _cdc_seq
from last_versions
where _cdc_latest = 1
