with followed_versions as (
    select
        `order_id`, `line`,
        _seq,
        _seq_end,
        lead(_seq) over (partition by `order_id`, `line` order by _seq, _seq_end nulls last) as _next_seq
    from app.history_flagged
)

select *
from followed_versions
where
    _seq_end < _seq
    or _seq_end > _next_seq
    or (_seq_end is null and _next_seq is not null)
    or `order_id` is null
    or `line` is null
