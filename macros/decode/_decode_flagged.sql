{#-
    Row images with an operation column (GoldenGate, Informatica, Oracle CDC, triggers), in the words of AUTO CDC:
    apply_as_truncates and apply_as_deletes are SQL conditions, `operation` names a column of I/U/D/T flags.
-#}
{% macro _decode_flagged(d) -%}
    {%- set given = "cast(" ~ d.operation ~ " as string)" -%}
    {%- set flag = "upper(trim(" ~ given ~ "))" if d.operation else "'U'" -%}
    {#- Nearly all flags are these, and comparing a text costs less than trimming it. -#}
    {%- set is_plain = given ~ " in ('I', 'U', 'D', 'T')" %}
select
    *,
    case
        {%- if d.apply_as_truncates %}
        when {{ d.apply_as_truncates }} then 'T'
        {%- endif %}
        {%- if d.apply_as_deletes %}
        when {{ d.apply_as_deletes }} then 'D'
        {%- endif %}
        {%- if d.operation %}
        when {{ is_plain }} then {{ given }}
        {%- endif %}
        when {{ flag }} in ('I', 'U', 'D', 'T') then {{ flag }}
        when {{ flag }} in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE') then left({{ flag }}, 1)
    end as __cdc_operation,
    {{ cdc._sequence(d) }} as __cdc_seq,
    {%- if d.event_time %}
    {{ cdc._event_time(d) }} as __cdc_ts,
    {%- endif %}
    {%- if d.operation %}
    case
        {%- for condition in [d.apply_as_truncates, d.apply_as_deletes] if condition %}
        when {{ condition }} then null
        {%- endfor %}
        when {{ is_plain }} then null
        when {{ d.operation }} is null then 'no operation'
        when {{ flag }} not in ('I', 'U', 'D', 'T', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
            then concat('unknown operation ', {{ d.operation }})
    end as __cdc_problem
    {%- else %}
    cast(null as string) as __cdc_problem
    {%- endif %}
from raw_events
{%- endmacro %}
