{#-
    dbt's hook for the merge of an incremental model: ours where the model's body is cdc.current or resolves keys, dbt-spark's
    everywhere else.
-#}
{% macro spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) -%}
    {%- if cdc._resolves(model) -%}
        {{ return(cdc._merge_resolved_events(target, source, unique_key)) }}
    {%- elif "macro.cdc.current" not in model.depends_on.macros -%}
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
    {%- set mark = fromjson(modules.re.search("-- cdc: ({.*})", model.compiled_code).group(1)) -%}
    {%- set predicates = cdc._key_predicates(cdc._as_list(unique_key)) + (incremental_predicates or []) -%}
    {%- if mark.bounds -%}
        {#- A row without a key is that of the last truncate. -#}
        {%- do predicates.append("(" ~ cdc._is_within(mark.bounds, "DBT_INTERNAL_DEST") ~ " or DBT_INTERNAL_DEST."
            ~ mark.bounds.key ~ " is null)") -%}
    {%- endif -%}
    {%- set merge_sql = cdc._merge(target, source, predicates, [
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
    ]) -%}
    {#- The rows hold for the version that they were computed for. The stamp goes with them: one that fell back is read on from. -#}
    {%- if not cdc._writes_since(target, mark.version) -%}
        {%- do cdc._write_stamp(target, mark.position) -%}
        {%- do run_query(merge_sql) -%}
        {%- do cdc._plan_as_ever({"planned_small": mark.planned_small}) -%}
        {%- if cdc._writes_since(target, mark.version) <= 1 -%}
            {{ return("select 'merged' as outcome") }}
        {%- endif -%}
    {%- endif -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: another build wrote " ~ target ~ " while this one ran. Run it again when the other one is done."
    ) -%}
{%- endmacro %}


{#- Events into the resolver's table, which takes on the columns that they have gained since the last run. -#}
{% macro _merge_resolved_events(target, source, unique_key) -%}
    {%- if model.cdc_resolved -%}
        {{ return("select 'nothing new' as outcome") }}
    {%- elif model.cdc_position -%}
        {%- do cdc._write_stamp(target, model.cdc_position) -%}
    {%- endif -%}
    {%- set given = cdc._column_types(source) -%}
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
