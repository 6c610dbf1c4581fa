{#-
    dbt's hook for the merge of an incremental model: ours where the model's body is cdc.current or cdc.changelog, or resolves
    keys, dbt-spark's everywhere else.
-#}
{% macro spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) -%}
    {%- set kind = cdc._kind_of(model) -%}
    {%- if kind == "resolver" -%}
        {{ return(cdc._merge_resolved_events(target, source, unique_key)) }}
    {%- elif kind == "final" -%}
        {{ return("select '" ~ cdc._update_current(model) ~ "' as outcome") }}
    {%- elif kind == "changelog" -%}
        {{ return("select '" ~ cdc._update_changelog(model) ~ "' as outcome") }}
    {%- endif -%}
    {{ return(dbt.spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates)) }}
{%- endmacro %}


{#- Events into the resolver's table, which takes on the columns that they have gained since the last run. -#}
{% macro _merge_resolved_events(target, source, unique_key) -%}
    {%- set given = cdc._table_types(source) -%}
    {%- set has_time = "_ts" in given -%}
    {%- if ("_ts" in cdc._column_types(target)) != has_time -%}
        {%- do cdc._refuse_columns(target, ["the table was built " ~ ("without" if has_time else "with")
            ~ " an event time, and its events have " ~ ("one" if has_time else "none")
            ~ " now. Undo the change of `event_time`."]) -%}
    {%- endif -%}
    {%- set columns = [] -%}
    {%- set values = [] -%}
    {%- for column, type in cdc._evolve(target, given).items() if column in given -%}
        {%- set name = cdc._quoted(column) -%}
        {%- do columns.append(name) -%}
        {%- do values.append(cdc._fitted(name, given[column], type) ~ " as " ~ name) -%}
    {%- endfor -%}
    {{ return(cdc._merge(
        target,
        "(select " ~ (values | join(", ")) ~ " from " ~ source ~ ")",
        cdc._key_predicates([unique_key]),
        [
            {"when": "matched", "then": "update", "columns": columns},
            {"when": "not matched", "then": "insert", "columns": columns},
        ],
    )) }}
{%- endmacro %}
