{#-
    ChangeEvent(changeType, timestamp, columnNames, columnValues, oldKeyNames, oldKeyValues), as typed columns or as JSON
    text. Columns may be missing or in another order from event to event. Values in JSON are read as VARIANT, which keeps numbers
    exact where a text field would pass them through a double.
-#}
{% macro _decode_change_event(d) -%}
    {%- set schema = "changeType string, timestamp string, columnNames array<string>, columnValues array<variant>, "
        ~ "oldKeyNames array<string>, oldKeyValues array<variant>, _corrupt_record string" -%}
    {#- Spark's names ignore case. -#}
    {%- set event = "_message." if d.payload else "" -%}
    {%- set names, values = event ~ "columnnames", event ~ "columnvalues" -%}
    {%- set old_names, old_values = event ~ "oldkeynames", event ~ "oldkeyvalues" -%}
    {%- set kind = event ~ "changetype" -%}
    {%- set beside, sequence = cdc._beside_event(d), [] -%}
    {%- for part in d.sequence_by -%}{%- do sequence.append(beside.get(part, part)) -%}{%- endfor -%}
    {%- set d = dict(d, sequence_by=sequence, event_time=beside.get(d.event_time, d.event_time)) -%}
with {% if d.payload -%}
change_events as (
    select
        *,
        _message.*
    from ({{ cdc._parsed_messages(schema) | indent(4) }})
),

{% endif -%}
paired_events as (
    select
        *,
        {{ cdc._arrays_pair(names, values) }} as __cdc_columns_pair,
        {{ cdc._arrays_pair(old_names, old_values) }} as __cdc_old_keys_pair
    from {{ "change_events" if d.payload else "raw_events" }}
)

select
    *,
    case lower(trim({{ kind }})) when 'insert' then 'I' when 'update' then 'U' when 'delete' then 'D' when 'truncate' then 'T' end
        as __cdc_operation,
    case when __cdc_columns_pair then map_from_arrays({{ names }}, {{ values }}) end as __cdc_image,
    case when __cdc_old_keys_pair then map_from_arrays({{ old_names }}, {{ old_values }}) end as __cdc_before,
    {{ cdc._sequence(d, "try_cast(" ~ event ~ "timestamp as bigint)") }} as __cdc_seq,
    {%- if d.event_time %}
    {{ cdc._event_time(d) }} as __cdc_ts,
    {%- endif %}
    case
        {%- if d.payload %}
        when _message._corrupt_record is not null then 'unreadable payload'
        {%- endif %}
        when {{ kind }} is null then 'no operation'
        when lower(trim({{ kind }})) not in ('insert', 'update', 'delete', 'truncate') then concat('unknown operation ', {{ kind }})
        when not __cdc_columns_pair then 'column names and values do not pair'
        when not __cdc_old_keys_pair then 'old key names and values do not pair'
    end as __cdc_problem
from paired_events
{%- endmacro %}


{#- Whether an array of names and one of values make a map, or are both missing. -#}
{% macro _arrays_pair(names, values) -%}
    {{ return(
        "coalesce(size(" ~ names ~ ") = size(" ~ values ~ ") and " ~ cdc._names_are_unique(names) ~ ", coalesce(" ~ names ~ ", "
        ~ values ~ ") is null)"
    ) }}
{%- endmacro %}
