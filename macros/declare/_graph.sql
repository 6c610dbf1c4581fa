{#-
    The nodes and sources of the project. A dbt unit test has a graph of its own, which is empty: there the adapter gives the project's.
-#}
{% macro _graph() -%}
    {{ return(graph if graph else adapter.dispatch("project_graph", "cdc")()) }}
{%- endmacro %}


{% macro default__project_graph() -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: a unit test of " ~ model.name ~ " cannot read the declaration of its source, which dbt hides from unit tests. They run with"
        ~ " the adapter `type: sparkcdc` only; elsewhere leave them out: --exclude-resource-type unit_test."
    ) -%}
{%- endmacro %}


{% macro sparkcdc__project_graph() -%}
    {{ return(adapter.project_graph()) }}
{%- endmacro %}


{#- The node of a model that renders. In a unit test, that of the model it tests. -#}
{% macro _rendered_node(node) -%}
    {{ return(cdc._graph().nodes[node.tested_node_unique_id] if node.resource_type == "unit_test" else node) }}
{%- endmacro %}


{#- What dbt calls the fixture that stands for a source or a model in a unit test. -#}
{% macro _fixture_name(name) -%}
    {{ return("__dbt__cte__" ~ name) }}
{%- endmacro %}
