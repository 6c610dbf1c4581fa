with valid_versions as (
    select *
    from app.history_flagged
    where
        dbt_valid_from <= timestamp '2026-01-01 12:00:00'
        and (dbt_valid_to is null or dbt_valid_to > timestamp '2026-01-01 12:00:00')
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
