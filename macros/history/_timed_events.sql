{#-
    Events with the ends that truncates bring, as CTEs of `events` and `truncates`. The last one, `timed_events`, says whether an
    event is an end. What a truncate closed has an event `T` of its own there, at the position of the truncate.
-#}
{% macro _timed_events(spec) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
    {%- set times = "_ts, " if spec.time == "_ts" else "" -%}
{%- if spec.truncated -%}
truncate_positions as (
    select collect_list(struct(_seq, {{ times }}_event_id)) as _positions
    from truncates
),

{#- Only the first truncate after an event can end its row. It closes what began before it, whenever it arrives. -#}
truncated_events as (
    select
        events.*,
        case
            when _op in ('I', 'U', 'B') and size(_positions) > 0
                then array_min(filter(_positions, truncate -> truncate._seq >= events._seq))
        end as _truncate
    from events
    cross join truncate_positions
),

closed_events as (
    select
        *,
        explode(if(_truncate is null, array(false), array(false, true))) as _is_truncate
    from truncated_events
),

timed_events as (
    select
        {{ keys }},
        _values,
        if(_is_truncate, 'T', _op) as _op,
        if(_is_truncate, _truncate._seq, _seq) as _seq,
        {%- if spec.time == "_ts" %}
        if(_is_truncate, _truncate._ts, _ts) as _ts,
        {%- endif %}
        if(_is_truncate, _truncate._event_id, _event_id) as _event_id,
        _unset,
        {%- if spec.counted %}
        _is_new and not _is_truncate as _is_new,
        {%- endif %}
        {%- if spec.stateful %}
        _state,
        {%- endif %}
        _is_truncate or _op not in ('I', 'U', 'B', 'S') as _is_end
    from closed_events
)
{%- else -%}
timed_events as (
    select
        *,
        _op not in ('I', 'U', 'B', 'S') as _is_end
    from events
)
{%- endif %}
{%- endmacro %}
