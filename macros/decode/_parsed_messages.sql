{#- The raw events with their payload parsed once, as `_message`, and whether that was in vain. -#}
{% macro _parsed_messages(schema) -%}
select
    *,
    _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
from (
    select
        *,
        from_json(__cdc_payload, '{{ schema }}', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
    from raw_events
) as parsed_events
{%- endmacro %}
