{#-
    The body of a quarantine model: the bad events of a raw table with their reason, payload and origin. A table with masked
    columns withholds the payload: where in a broken message the masked values are, nobody can tell.
-#}
{% macro quarantine(relation) -%}
    {{ return(adapter.dispatch("quarantine", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__quarantine(relation) -%}
    {%- if not execute -%}
        {{ return("select 1 as _reason") }}
    {%- endif -%}
    {%- set d = cdc._declaration(relation) -%}
with {{ cdc._decoded_events(d, relation) }}

select
    _reason,
    {{ "cast(null as string) as _payload" if d.mask else "_payload" }},
    _origin,
    _arrived
from identified_events
where _reason is not null
{%- endmacro %}
