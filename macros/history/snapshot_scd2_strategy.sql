{#-
    `strategy: cdc.scd2` of a snapshot. dbt calls it before it builds or merges; all that is wrong with the declaration is
    reported here, before any write.
-#}
{% macro snapshot_scd2_strategy(node, snapshotted_rel, current_rel, model_config, target_exists) -%}
    {{ return(adapter.dispatch("snapshot_scd2_strategy", "cdc")(node, target_exists)) }}
{%- endmacro %}


{% macro default__snapshot_scd2_strategy(node, target_exists) -%}
    {%- if not target_exists -%}
        {%- do cdc._declared_spec(node, node.compiled_code, cdc._relation_of(node)) -%}
    {%- endif -%}
    {#- dbt reads these two; hooks of ours make their own plan from the node. -#}
    {{ return({"unique_key": node.config.unique_key, "scd_id": "dbt_scd_id"}) }}
{%- endmacro %}
