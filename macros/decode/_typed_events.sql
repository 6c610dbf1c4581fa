{#-
    Every declared column in its type, as the CTE `typed_events` of `given_events`.
      given_names   the columns of `given_events` that hold what an event gives
-#}
{% macro _typed_events(d, given_names) -%}
    {%- set typed = cdc._typed_columns(d) -%}
    {%- set masks = d.columns | selectattr("mask") | list -%}
typed_events as (
    select
        _payload,
        _origin,
        _arrived,
        _cdc_raw_problem,
        _cdc_problem,
        {{- "\n        _cdc_is_whole," if d.format == "debezium" }}
        {%- if d.source_table %}
        _cdc_table,
        {%- endif %}
        _cdc_operation as _op,
        _seq,
        {%- if cdc._has_event_time(d) %}
        _ts,
        {%- endif %}
        {%- for name in given_names %}
        {{ name }},
        {%- endfor %}
        {%- for column in typed.columns %}
        {{ column }},
        {%- endfor %}
        _unset
    from (
        select{{ " /*+ broadcast(mask_keys) */" if masks }}
            *,
            struct({{ typed.expressions | join(", ") }}, {{ cdc._unset_columns(d) }}) as __cdc_typed
        from given_events
        {{- "\n        cross join mask_keys" if masks }}
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as {{ typed.names | join(", ") }}, _unset
)
{%- endmacro %}


{#-
    The values in their types: their `expressions`, the `names` that these have in a lateral view, and the declared `columns` made
    of them.
-#}
{% macro _typed_columns(d) -%}
    {%- set names, expressions, columns = [], [], [] -%}
    {%- for column in d.columns -%}
        {%- do expressions.append(cdc._table_value(d, column, cdc._given(column.name))) -%}
        {%- do names.append(cdc._view_column(column.name)) -%}
        {%- set quoted = cdc._quoted(column.name) -%}
        {%- do columns.append(quoted if quoted == names[-1] else names[-1] ~ " as " ~ quoted) -%}
        {%- if column.name in cdc._changeable_keys(d) -%}
            {%- do expressions.append(cdc._table_value(d, column, cdc._given("old " ~ column.name))) -%}
            {%- do names.append(cdc._view_column("__cdc_old_" ~ column.name)) -%}
            {%- do columns.append(names[-1]) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return({"names": names, "expressions": expressions, "columns": columns}) }}
{%- endmacro %}


{#- A value in the type of the tables, from what an event gives. -#}
{% macro _table_value(d, column, given) -%}
    {%- set value = cdc._converted(d, given, column.type, column.name) -%}
    {{ return(cdc._masked(value, column.type) if column.mask else value) }}
{%- endmacro %}


{#- The columns an upsert carries no value for; a NULL that `ignore_null_updates` covers counts as none. -#}
{% macro _unset_columns(d) -%}
    {%- set ignored = d.columns | map(attribute="name") | list if d.ignore_null_updates is sameas true
        else cdc._as_list(d.ignore_null_updates or none) -%}
    {%- set parts = [] -%}
    {%- for column in d.columns if column.name not in d.key_columns -%}
        {%- set unset = [] -%}
        {%- if not d.traits.columns -%}
            {%- do unset.append("not " ~ cdc._is_given(d, column.name) ~ " and not "
                ~ cdc._is_given(d, column.name, "_cdc_before") ~ (" and not _cdc_is_whole" if d.format == "debezium")) -%}
        {%- endif -%}
        {%- if d.changed_columns -%}
            {%- set names = [] -%}
            {%- for name in cdc._names_of(d, column.name) -%}{%- do names.append(cdc._literal(name | lower)) -%}{%- endfor -%}
            {%- do unset.append("_cdc_operation = 'U' and not arrays_overlap(__cdc_changed_columns, array("
                ~ (names | join(", ")) ~ "))") -%}
        {%- endif -%}
        {%- if column.name in ignored -%}
            {%- do unset.append("cast(" ~ cdc._given(column.name) ~ " as string) is null") -%}
        {%- endif -%}
        {%- if unset -%}
            {%- do parts.append("case when " ~ (unset | join(" or ")) ~ " then " ~ cdc._literal(column.name) ~ " end") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not parts -%}
        {{ return("cast(array() as array<string>)") }}
    {%- endif -%}
    {{ return("case when _cdc_operation in ('I', 'U') then array_except(array(" ~ (parts | join(", "))
        ~ "), array(null)) else cast(array() as array<string>) end") }}
{%- endmacro %}
