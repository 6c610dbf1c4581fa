with new_events as (
    with arrived_events as (
        select
            *,
            false as _is_move
        from (select * from app.events_flagged) as source_events
        where _arrived <= 9
    )

    select
        `order_id`,
        `line`,
        struct(
            `status` as `status`,
            `amount` as `amount`
        ) as _values,
        if(_is_move, 'M', _op) as _op,
        _seq,
        _ts,
        _event_id,
        _unset
    from arrived_events
),

sole_events as (
    select new_events.*
    from new_events
    where _op in ('I', 'U') and coalesce(size(_unset) = 0, false)
),


versions as (
    select
        `order_id`, `line`,
        _values.`status`,
        _values.`amount`,
        _seq,
        if(true, null, _seq) as _seq_end,
        _ts as _cdc_created_at,
        _seq as _cdc_seq,
        if(true, null, array(struct(_seq, _op, _event_id, _ts, _unset, struct(_values.`amount`) as _image))) as _events,
        md5(to_json(struct(`order_id` as key_1, `line` as key_2, _seq, _event_id as _first_event_id), map('timeZone', 'UTC'))) as dbt_scd_id,
        _ts as dbt_updated_at,
        _ts as dbt_valid_from,
        if(true, null, _ts) as dbt_valid_to,
        _event_id,
        true as _cdc_is_latest
    from sole_events
)

select `order_id`, `line`, `status`, `amount`, `_seq`, `_seq_end`, `_cdc_created_at`, `_cdc_seq`, `_events`, `dbt_scd_id`, `dbt_updated_at`, `dbt_valid_from`, `dbt_valid_to`, `_event_id`, `_cdc_is_latest`
from versions
where _seq is not null
