{#-
    What each event does to its row, as CTEs of `marked_events`. The last one, `numbered_events`, says whether the event begins a
    version (_is_start) or changes a value (_is_change), and the number of the version that it belongs to (_version).
-#}
{% macro _numbered_events(spec) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
    {%- set event_order = cdc._event_order(spec) -%}
    {%- set resolves = cdc._resolves(spec) -%}
    {%- set before = "lag(_values) over (" ~ event_order ~ ")" if resolves else "__cdc_previous._values" -%}
{%- if resolves -%}
resolved_events as (
    select
        * except (_values),
        {{ cdc._resolved_values(spec) | indent(8) }} as _values
    from marked_events
),

{% endif -%}
compared_events as (
    select
        *,
        _is_image and (_is_first or not {{ cdc._unchanged(spec, spec.tracked, before) }}) as _is_start,
        _is_image and (_is_first or not {{ cdc._unchanged(spec, spec.value_columns, before) }}) as _is_change
    from {{ "resolved_events" if resolves else "marked_events" }}
),

numbered_events as (
    select
        *,
        row_number() over ({{ event_order }}) as _ordinal,
        count_if(_is_start) over ({{ event_order }}) as _version,
        {%- if spec.counted %}
        _is_new and coalesce(_seq < max(if(_is_new, null, _seq)) over (partition by {{ keys }}), false) as _is_late,
        _is_new and (coalesce(_seq = __cdc_previous._seq, false) or coalesce(_seq = __cdc_next_seq, false)) as _is_tied,
        {%- endif %}
        last_value(if(_is_birth, {{ "coalesce(_state._cdc_created_at, " ~ spec.time ~ ")" if spec.stateful else spec.time }}, null), true)
            over ({{ event_order }}) as _created
    from compared_events
)
{%- endmacro %}


{#-
    The values of the row after an event. A column without a value takes the one before it in this row lifetime; an end ends the
    inheritance.
-#}
{% macro _resolved_values(spec) -%}
    {%- set fields = [] -%}
    {%- for column in spec.value_columns -%}
        {%- set name = cdc._quoted(column) -%}
        {%- do fields.append(
            "last_value(case when not _is_end and not array_contains(_unset, " ~ cdc._literal(column) ~ ") then named_struct('v', _values."
            ~ name ~ ") when _is_end or _is_birth then named_struct('v', if(true, null, _values." ~ name ~ ")) end, true) over ("
            ~ cdc._event_order(spec) ~ ").v as " ~ name) -%}
    {%- endfor -%}
    {{ return("if(_is_end or _op = 'B', null, struct(" ~ (fields | join(", ")) ~ "))") }}
{%- endmacro %}


{#- True where the row carries the same values as the one before it, whose values `before` gives. -#}
{% macro _unchanged(spec, columns, before) -%}
    {%- if not columns -%}
        {{ return("true") }}
    {%- endif -%}
    {{ return("(" ~ cdc._image_of(spec, columns) ~ " <=> " ~ cdc._image_of(spec, columns, before) ~ ")") }}
{%- endmacro %}
