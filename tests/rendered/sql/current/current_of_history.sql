select
    * except (
        _seq, _seq_end, _cdc_created_at, _cdc_seq, _events, dbt_scd_id, dbt_updated_at, dbt_valid_from, dbt_valid_to, _event_id,
        _cdc_is_latest
    ),
    _cdc_created_at,
    dbt_updated_at as _cdc_updated_at,
    _cdc_seq
from app.history_flagged
where
    _cdc_is_latest
    and _seq_end is null
