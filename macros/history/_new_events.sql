{#-
    The events between two arrivals as the fold wants them: an event that ends the row of another key, too, does so as M. Truncates carry
    no key.
-#}
{% macro _new_events(t, events_sql, since=none, until=none) -%}
with arrived_events as (
    select
        *,
        {%- if t.ended %}
        explode(if({{ cdc._quoted(t.ended[t.key_columns[0]]) }} is null, array(false), array(false, true))) as _is_move
        {%- else %}
        false as _is_move
        {%- endif %}
    from ({{ events_sql }}) as source_events
    where
        {{ t.arrival ~ " > " ~ since if since is not none else "true" }}
        {{ "and " ~ t.arrival ~ " <= " ~ until if until is not none }}
)

select
    {%- for key in t.key_columns %}
    {%- set name = cdc._quoted(key) %}
    {{ "if(_is_move, " ~ cdc._quoted(t.ended[key]) ~ ", " ~ name ~ ") as " ~ name if t.ended else name }},
    {%- endfor %}
    {%- for column in t.value_columns %}
    {{ cdc._event_column(t, column) }} as {{ cdc._quoted(column) }},
    {%- endfor %}
    if(_is_move, 'M', _op) as _op,
    _seq,
    {%- if t.time == "_ts" %}
    _ts,
    {%- endif %}
    _event_id,
    {%- if t.follows %}
    _former_entity_ids,
    _resolved,
    {%- endif %}
    {{ cdc._present_names(t, "_unset") if t.follows else "_unset" }}{{ " as _unset" if t.follows }}
from arrived_events
{%- endmacro %}


{#-
    A column of the events in the type of the table. The resolver's table holds older events under a column's former name, and a column
    that was dropped from the declaration is in no event.
-#}
{% macro _event_column(t, column) -%}
    {%- if column in t.dropped -%}
        {{ return("cast(null as " ~ t.types[column] ~ ")") }}
    {%- endif -%}
    {%- set types = t.event_types or t.types -%}
    {%- set values = [] -%}
    {%- for name in [column] + t.renames.get(column, []) if name in types -%}
        {%- do values.append(cdc._fitted(cdc._quoted(name), types[name], t.types[column])) -%}
    {%- endfor -%}
    {{ return("coalesce(" ~ (values | join(", ")) ~ ")" if values | length > 1 else values[0]) }}
{%- endmacro %}


{#- The CTEs that _versions reads, of all events up to where a first build reads. -#}
{% macro _all_events(t, events_sql) -%}
new_events as (
    {{ cdc._new_events(t, events_sql, until=t.read_to) | indent(4) }}
),

events as (
    select * from new_events
    where _op <> 'T'
),

truncates as (
    select distinct
        _seq,
        {{ "_ts," if t.time == "_ts" }}
        _event_id
    from new_events
    where _op = 'T'
)
{%- endmacro %}
