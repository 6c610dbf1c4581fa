{#-
    dbt's hook for the properties of a table that is created: histories and final tables of this package have a change feed, and
    say what they were declared as; others are left as they were. The commit that creates a final table, or a consumer of changes,
    gets its checkpoint here.
-#}
{% macro spark__tblproperties_clause() -%}
    {%- set kind = cdc._kind_of(model) -%}
    {%- set properties = cdc._format_properties(model) -%}
    {%- if kind == "history" -%}
        {%- do cdc._refuse_second_home(model, this) -%}
        {%- do properties.update({"cdc.build": invocation_id}) -%}
        {%- set spec = cdc._declared_spec(model, model.compiled_code, this) -%}
        {%- do properties.update(dict(cdc._built_as(spec), **cdc._table_features(spec.types.values(), model))) -%}
    {%- elif kind == "final" and model.config.materialized != "view" -%}
        {%- do properties.update(cdc._first_current(model)) -%}
    {%- elif kind == "changelog" and model.config.materialized == "incremental" -%}
        {%- set properties = dict(cdc._first_changelog(model)) -%}
    {%- else -%}
        {{ return(dbt.spark__tblproperties_clause()) }}
    {%- endif -%}
    {%- do properties.update(config.get("tblproperties") or {}) -%}
    {{ return(cdc._tblproperties(properties) if properties else "") }}
{%- endmacro %}


{#-
    The features of Delta that columns of these types need. Delta turns them on by itself in a new table only: a full refresh
    replaces a table that may have been created without them.
-#}
{% macro _table_features(types, node=none) -%}
    {%- set is_delta = node is none or cdc._file_format(node) == "delta" -%}
    {{ return({"delta.feature.timestampNtz": "supported"} if is_delta and "timestamp_ntz" in types | join(" ") | lower else {}) }}
{%- endmacro %}


{#- What a table of events says of itself when it is made. -#}
{% macro _built_as(spec) -%}
    {%- set properties = dict(cdc._history_properties(spec), **cdc._mask_properties(spec)) -%}
    {%- if cdc._identity(spec) -%}{%- do properties.update({"cdc.identity": cdc._identity(spec)}) -%}{%- endif -%}
    {{ return(properties) }}
{%- endmacro %}
