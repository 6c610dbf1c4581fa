{#- Every run adds files. Delta itself puts a table's small ones together after a write, once there are 50 of them. -#}
{% macro _compacts_itself() -%}
    {{ return({"delta.autoOptimize.autoCompact": "true"}) }}
{%- endmacro %}


{#- The same for tables that no model of dbt's makes. -#}
{% macro _using_delta() -%}
    {{ return("using delta " ~ cdc._tblproperties(cdc._compacts_itself())) }}
{%- endmacro %}
