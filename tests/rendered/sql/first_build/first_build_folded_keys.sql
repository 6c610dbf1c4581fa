-- cdc.identity: 2ea9423acc350b16ebf1446b35b9dcd9
select
    `order_id`, `line`,
    _is_truncate
from (
    select
        `order_id`, `line`,
        _op = 'T' as _is_truncate,
        coalesce(_op in ('I', 'U') and coalesce(size(_unset) = 0, false), false) as __cdc_is_full_image,
        row_number() over (partition by `order_id`, `line` order by _op = 'T' desc) as __cdc_place,
        lead(true) over (partition by `order_id`, `line` order by _op = 'T' desc) as __cdc_has_next
    from (
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
    ) as new_events
) as placed_events
where __cdc_place = 1 and (not __cdc_is_full_image or __cdc_has_next)
