{#-
    dbt's hook for table properties: histories and final tables of this package keep a change feed and put their small files together,
    others are as they were.
-#}
{% macro spark__tblproperties_clause() -%}
    {%- set properties = {"delta.enableChangeDataFeed": "true"} -%}
    {%- do properties.update(cdc._compacts_itself()) -%}
    {%- if config.get("strategy") == "cdc.scd2" -%}
        {%- do properties.update({"cdc.build": invocation_id}) -%}
        {%- do properties.update(cdc._history_properties(cdc._history_traits(model, model.compiled_code))) -%}
    {%- elif "macro.cdc.current" in model.depends_on.macros -%}
        {%- for id in model.depends_on.nodes if id.startswith("model.") -%}
            {%- set events_sql = "select * from " ~ graph.nodes[id].relation_name -%}
            {%- do properties.update(cdc._history_properties(cdc._history_traits(model, events_sql))) -%}
        {%- endfor -%}
    {%- else -%}
        {{ return(dbt.spark__tblproperties_clause()) }}
    {%- endif -%}
    {%- do properties.update(config.get("tblproperties") or {}) -%}
    {{ return(cdc._tblproperties(properties)) }}
{%- endmacro %}


{% macro _tblproperties(properties) -%}
    {%- set pairs = [] -%}
    {%- for name, value in properties.items() -%}
        {%- do pairs.append(cdc._literal(name) ~ " = " ~ cdc._literal(value)) -%}
    {%- endfor -%}
    {{ return("tblproperties (" ~ (pairs | join(", ")) ~ ")") }}
{%- endmacro %}
