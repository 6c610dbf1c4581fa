{#- The raw events with their payload parsed once, as `_message`; what it cannot be parsed to stands in `_corrupt_record`. -#}
{% macro _parsed_messages(schema) -%}
select *
from raw_events
lateral view outer explode(
    array(from_json(_payload, '{{ schema }}', map('columnNameOfCorruptRecord', '_corrupt_record')))
) messages as _message
{%- endmacro %}
