{#- dbt's hook for the merge of an incremental model: ours where the model's body is cdc.current, dbt-spark's everywhere else. -#}
{% macro spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) -%}
    {%- if "macro.cdc.current" not in model.depends_on.macros -%}
        {{ return(dbt.spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates)) }}
    {%- endif -%}
    {%- if cdc._nothing_new_mark() in model.compiled_code -%}
        {{ return("select 'nothing new' as outcome") }}
    {%- endif -%}
    {%- set columns = [] -%}
    {%- for column in adapter.get_columns_in_relation(target) -%}
        {%- do columns.append(cdc._quoted(column.name)) -%}
    {%- endfor -%}
    {%- set dest = "struct(DBT_INTERNAL_DEST." ~ (columns | join(", DBT_INTERNAL_DEST.")) ~ ")" -%}
    {{ return(cdc._merge(target, source, cdc._key_predicates(cdc._as_list(unique_key)) + (incremental_predicates or []), [
        {
            "when": "matched and DBT_INTERNAL_SOURCE._op = 'D' and DBT_INTERNAL_DEST._cdc_seq <= DBT_INTERNAL_SOURCE._cdc_seq",
            "then": "delete",
        },
        {
            "when": "matched and DBT_INTERNAL_SOURCE._op = 'U' and not (" ~ dest ~ " <=> "
                ~ (dest | replace("DBT_INTERNAL_DEST", "DBT_INTERNAL_SOURCE")) ~ ")",
            "then": "update",
            "columns": columns,
        },
        {"when": "not matched and DBT_INTERNAL_SOURCE._op = 'U'", "then": "insert", "columns": columns},
    ])) }}
{%- endmacro %}
