{#-
    What each event finds before it at its key, as CTEs. The last one, `marked_events`, says whether the event begins a row lifetime
    (_is_birth) or ends one (_is_close), whether it is an image of the row (_is_image), and the first one of its lifetime (_is_first).
      source   the CTE of the events, `timed_events` or a part of it
-#}
{% macro _marked_events(spec, source) -%}
    {%- set event_order = cdc._event_order(spec) -%}
    {%- set resolves = cdc._resolves(spec) -%}
    {%- set nothing_before = "coalesce(__cdc_previous._is_end or __cdc_previous._op = 'B', true)" -%}
{#- The same event twice stands side by side in the order. -#}
repeated_events as (
    select
        *,
        coalesce(
            lag(struct(_seq, _event_id, _is_end)) over ({{ event_order }}) = struct(_seq, _event_id, _is_end),
            false
        ) as _is_repeated
    from {{ source }}
),

neighboring_events as (
    select
        * except (_is_repeated),
        {%- if spec.counted %}
        lead(_seq) over ({{ event_order }}) as __cdc_next_seq,
        {%- endif %}
        lag(struct(_seq, _op, _is_end{{ ", _values" if not resolves }})) over ({{ event_order }}) as __cdc_previous
    from repeated_events
    where not _is_repeated
),

marked_events as (
    select
        {{ "*" if resolves else "* except (_values)" }},
        {%- if not resolves %}
        if(_is_end or _op = 'B', null, _values) as _values,
        {%- endif %}
        not _is_end and coalesce(__cdc_previous._is_end, true) as _is_birth,
        _is_end and not {{ nothing_before }} as _is_close,
        not _is_end and _op <> 'B' as _is_image,
        not _is_end and {{ nothing_before }} as _is_first
    from neighboring_events
)
{%- endmacro %}


{#- The order of the events of a key. At one position an end comes last. -#}
{% macro _event_order(spec) -%}
    {%- set tie_order = "_event_id, " ~ ("_is_new, " if spec.counted) ~ "_op" -%}
    {{ return("partition by " ~ cdc._column_list(spec.key_columns) ~ " order by _seq, _is_end, " ~ tie_order) }}
{%- endmacro %}


{#- Whether events may leave columns unset, whose values come from the events before. -#}
{% macro _resolves(spec) -%}
    {{ return(spec.partial and spec.value_columns) }}
{%- endmacro %}
