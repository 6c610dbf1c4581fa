{#-
    The events that a run reads, as the fold wants them: the values as one struct, and an event that ends the row of another key a
    second time, as M at that key. Truncates carry no key.
      amended   the arrivals of amendments to read beside, see `_is_new_row`
    Where a table is made of all events (`spec.reads_all`, `spec.rebuild`), an amendment may have lost the events of its row. It
    makes no row of its own then: it comes as a delete of what is not there.
-#}
{% macro _new_events(spec, since=none, until=none, amended=none) -%}
    {%- set finds_orphans = (spec.get("reads_all") or spec.rebuild) and "_arrived" in spec.types
        and cdc._amendments_of(spec.declaration) is not none -%}
with arrived_events as (
    select
        *,
        {%- if spec.ended %}
        explode(if({{ cdc._quoted(spec.ended[spec.key_columns[0]]) }} is null, array(false), array(false, true))) as _is_move
        {%- else %}
        false as _is_move
        {%- endif %}
    from ({{ spec.events_sql }}) as source_events
    where {{ cdc._is_new_row(spec.arrival, since, until, amended) }}
)
{%- if finds_orphans %},

first_images as (
    select
        {{ cdc._column_list(spec.key_columns) }},
        min(_seq) as __cdc_first_seq
    from arrived_events
    where _op in ('I', 'U') and not {{ cdc._is_amendment() }}
    group by {{ cdc._column_list(spec.key_columns) }}
),

founded_events as (
    select
        arrived_events.* except (_op),
        if(
            _op = 'U' and {{ cdc._is_amendment("arrived_events._arrived") }} and not coalesce(__cdc_first_seq <= arrived_events._seq, false),
            'D',
            _op
        ) as _op
    from arrived_events
    left join first_images on {{ cdc._same(spec.key_columns, "first_images", "arrived_events") }}
)
{%- endif %}

select
    {%- for key in spec.key_columns %}
    {%- set name = cdc._quoted(key) %}
    {{ "if(_is_move, " ~ cdc._quoted(spec.ended[key]) ~ ", " ~ name ~ ") as " ~ name if spec.ended else name }},
    {%- endfor %}
    struct(
        {%- for column in spec.value_columns %}
        {{ cdc._event_column(spec, column) }} as {{ cdc._quoted(column) }}{{ "," if not loop.last }}
        {%- else %}
        true as _cdc_no_values
        {%- endfor %}
    ) as _values,
    if(_is_move, 'M', _op) as _op,
    _seq,
    {%- if spec.time == "_ts" %}
    _ts,
    {%- endif %}
    _event_id,
    {%- if spec.follows %}
    _former_entity_ids,
    _resolved,
    {%- endif %}
    {{ cdc._present_names(spec, "_unset") if spec.follows else "_unset" }}{{ " as _unset" if spec.follows }}
from {{ "founded_events" if finds_orphans else "arrived_events" }}
{%- endmacro %}


{#-
    A column of the events in the type of the table. The resolver's table holds older events under a column's former name, and a
    column that was dropped from the declaration is in no event.
-#}
{% macro _event_column(spec, column) -%}
    {%- if column in spec.dropped -%}
        {{ return("cast(null as " ~ spec.types[column] ~ ")") }}
    {%- endif -%}
    {%- set types = spec.event_types or spec.types -%}
    {%- set values = [] -%}
    {%- for name in [column] + spec.renames.get(column, []) if name in types -%}
        {%- do values.append(cdc._fitted(cdc._quoted(name), types[name], spec.types[column])) -%}
    {%- endfor -%}
    {{ return("coalesce(" ~ (values | join(", ")) ~ ")" if values | length > 1 else values[0]) }}
{%- endmacro %}


{#- The CTEs that _versions reads, of all events up to where a first build reads. -#}
{% macro _all_events(spec, until) -%}
new_events as (
    {{ cdc._new_events(dict(spec, reads_all=true), until=until) | indent(4) }}
),
{% if spec.folded %}
{{ cdc._split_events(spec) }}
{%- else %}
events as (
    select * from new_events
    where _op <> 'T'
)
{%- if spec.truncated %},

truncates as (
    select distinct
        _seq,
        {{ "_ts," if spec.time == "_ts" }}
        _event_id
    from new_events
    where _op = 'T'
)
{%- endif %}
{%- endif %}
{%- endmacro %}
