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
    {{ "cast(null as " ~ t.types[column] ~ ") as " if column in t.dropped }}{{ cdc._quoted(column) }},
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
    _unset
from arrived_events
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
