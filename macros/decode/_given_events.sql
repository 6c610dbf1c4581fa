{#-
    The value that each event gives each column, as CTEs of `read_events`. The last one is `given_events`. It has the events of the
    declared table alone.
      given   what `_given_columns` returns
-#}
{% macro _given_events(d, given) -%}
    {%- set time = cdc._has_event_time(d) -%}
    {%- set decoded = (["_cdc_operation", "_cdc_image", "_cdc_before", "_seq"] + (["_ts"] if time else []) + ["_cdc_problem"]
        + (["_cdc_is_whole"] if d.format == "debezium" else []) + (["_cdc_table"] if d.source_table else [])) | join(", ") -%}
decoded_events as (
    select
        __cdc_payload as _payload,
        __cdc_origin as _origin,
        __cdc_arrived as _arrived,
        __cdc_raw_problem as _cdc_raw_problem,
        __cdc_operation as _cdc_operation,
        {%- if d.traits.columns %}
        struct({{ given.expressions | join(", ") }}) as __cdc_given,
        {%- else %}
        __cdc_image as _cdc_image,
        __cdc_before as _cdc_before,
        {%- endif %}
        {{- "\n        _message,\n        __cdc_is_whole as _cdc_is_whole," if d.format == "debezium" }}
        {%- if d.source_table %}
        __cdc_table as _cdc_table,
        {%- endif %}
        __cdc_seq as _seq,
        {%- if time %}
        __cdc_ts as _ts,
        {%- endif %}
        __cdc_problem as _cdc_problem
    from read_events
),

{%- if not d.traits.columns %}

held_events as (
    select
        _payload,
        _origin,
        _arrived,
        _cdc_raw_problem,
        {{- "\n        _message," if d.format == "debezium" }}
        decoded.*
    from (
        select
            * except ({{ decoded }}),
            struct({{ decoded }}) as __cdc_decoded
        from decoded_events
    ) as decoded_events
    lateral view outer inline(array(__cdc_decoded)) decoded as {{ decoded }}
),
{%- endif %}

given_events as (
    select *
    from (
        select
            *
            {%- if not d.traits.columns %},
            struct({{ given.expressions | join(", ") }}) as __cdc_given
            {%- endif %}
        from {{ "decoded_events" if d.traits.columns else "held_events" }}
        where
            _cdc_operation is distinct from 'M'
            {%- if d.source_table %}
            and {{ cdc._is_of_table(d) }}
            {%- endif %}
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as {{ given.names | join(", ") }}
)
{%- endmacro %}


{#- What is taken from an event: `names` of the columns that hold it, and their `expressions`. -#}
{% macro _given_columns(d) -%}
    {%- set names, expressions = [], [] -%}
    {%- for column in cdc._hashed_columns(d) -%}
        {%- if cdc._needs_field(d, column) and column not in d.left_out -%}
            {%- do expressions.append(cdc._debezium_field(d, column.name)) -%}
            {%- do names.append(cdc._field(column.name)) -%}
        {%- endif -%}
        {%- do expressions.append(cdc._event_value(d, column.name)) -%}
        {%- do names.append(cdc._given(column.name)) -%}
        {%- if column in d.left_out -%}
            {%- do expressions.append(cdc._says_something(d, column.name)) -%}
            {%- do names.append(cdc._said(column.name)) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if d.changed_columns -%}
        {%- do expressions.append(cdc._changed_columns(d)) -%}
        {%- do names.append("__cdc_changed_columns") -%}
    {%- endif -%}
    {%- for key in cdc._changeable_keys(d) -%}
        {%- do expressions.append(cdc._given_old_key(d, key)) -%}
        {%- do names.append(cdc._given("old " ~ key)) -%}
    {%- endfor -%}
    {{ return({"names": names, "expressions": expressions}) }}
{%- endmacro %}


{#- After image; for a delete, and for a value the source left out because it did not change, the before image. -#}
{% macro _event_value(d, name) -%}
    {%- set after = cdc._given_value(d, name) -%}
    {%- if d.traits.columns -%}
        {{ return(after) }}
    {%- endif -%}
    {%- set before = cdc._given_value(d, name, "_cdc_before") -%}
    {%- set given = "(" ~ cdc._is_given(d, name) ~ " or _cdc_is_whole)" if d.format == "debezium" else cdc._is_given(d, name) -%}
    {{ return(cdc._as_text(d, name, "case when _cdc_operation <> 'D' and " ~ given ~ " then " ~ after ~ " else "
        ~ before ~ " end")) }}
{%- endmacro %}


{#- The value that an image gives a column, or the raw column. -#}
{% macro _given_value(d, name, image="_cdc_image") -%}
    {{ return(cdc._raw_column(d, name) if d.traits.columns else cdc._latest_named(d, name, image)) }}
{%- endmacro %}


{#- The same by a former name where there is none by the present one. -#}
{% macro _latest_named(d, name, image=none) -%}
    {%- set found = [] -%}
    {%- for known in cdc._names_of(d, name) | reverse -%}
        {%- set value = image ~ "[" ~ cdc._literal(known) ~ "]" if image else cdc._quoted(known) -%}
        {%- do found.append("case when cast(" ~ value ~ " as string) is not null then " ~ value ~ " else " ~ found[-1] ~ " end"
            if found else value) -%}
    {%- endfor -%}
    {{ return(found[-1]) }}
{%- endmacro %}


{#- Whether an event gives a column a value at all. -#}
{% macro _is_given(d, name, image="_cdc_image") -%}
    {%- if d.traits.columns -%}
        {{ return("true") }}
    {%- elif d.traits.absent == "null" and image == "_cdc_image" -%}
        {{ return("(" ~ image ~ " is not null)") }}
    {%- endif -%}
    {%- set given = [] -%}
    {%- for known in cdc._names_of(d, name) -%}
        {%- if d.traits.null_before == "absent" and image == "_cdc_before" -%}
            {%- set value = image ~ "[" ~ cdc._literal(known) ~ "]" -%}
            {%- do given.append("(" ~ value ~ " is not null and not is_variant_null(" ~ value ~ "))") -%}
        {%- else -%}
            {%- do given.append("coalesce(map_contains_key(" ~ image ~ ", " ~ cdc._literal(known) ~ "), false)") -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return("(" ~ (given | join(" or ")) ~ ")" if given | length > 1 else given[0]) }}
{%- endmacro %}


{#- A column's name and its former names. -#}
{% macro _names_of(d, name) -%}
    {{ return([name] + d.renames.get(name, [])) }}
{%- endmacro %}


{#- A value of an image as text. -#}
{% macro _as_text(d, name, value) -%}
    {%- for column in d.columns + d.left_out if column.name == name and cdc._keeps_tokens(d, column.type) -%}
        {{ return("nullif(to_json(" ~ value ~ "), 'null')") }}
    {%- endfor -%}
    {{ return("cast(" ~ value ~ " as string)") }}
{%- endmacro %}


{#- Whether an event says something of a column that the tables leave out, NULL included, and the column that holds it. -#}
{% macro _says_something(d, name) -%}
    {%- if d.ignore_null_updates is sameas true or name in cdc._as_list(d.ignore_null_updates or none) -%}
        {{ return("false") }}
    {%- endif -%}
    {{ return("(" ~ cdc._is_given(d, name) ~ " or " ~ cdc._is_given(d, name, "_cdc_before") ~ ")") }}
{%- endmacro %}


{% macro _given(name) -%}
    {{ return(cdc._view_column("__cdc_given_" ~ name)) }}
{%- endmacro %}


{% macro _said(name) -%}
    {{ return(cdc._view_column("__cdc_said_" ~ name)) }}
{%- endmacro %}


{#- Name of the column that holds how the event's own schema describes a column. -#}
{% macro _field(name) -%}
    {{ return(cdc._view_column("__cdc_field_" ~ name)) }}
{%- endmacro %}


{#- A column of a lateral view, without a dot: Spark would take the quotes around a name that has one for a part of the name. -#}
{% macro _view_column(name) -%}
    {{ return(cdc._quoted(name | replace("~", "~0") | replace(".", "~1"))) }}
{%- endmacro %}
