{#-
    The nodes and sources of the project. A dbt unit test has a graph of its own, which is empty: there the adapter gives the
    project's.
-#}
{% macro _graph() -%}
    {{ return(graph if graph else adapter.dispatch("project_graph", "cdc")()) }}
{%- endmacro %}


{% macro default__project_graph() -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: a unit test of " ~ model.name ~ " cannot read the declaration of its source, which dbt hides from unit tests."
        ~ " They run with the adapter `type: sparkcdc` only; elsewhere leave them out: --exclude-resource-type unit_test."
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


{#-
    The model or snapshot of this project that builds a relation. None where none does. By its name: dbt hands in a part of the
    relation where `--empty` or `--sample` ask for one. It is nearly always one that the model itself names; looking there first
    keeps a build of many tables from going through all nodes for each.
-#}
{% macro _node_of(relation) -%}
    {%- set nodes = cdc._graph().nodes -%}
    {%- set fixture = cdc._fixture_name("") -%}
    {%- set named = [] -%}
    {%- for id in (model.depends_on.nodes if model else []) if id in nodes -%}{%- do named.append(nodes[id]) -%}{%- endfor -%}
    {%- for among in [named, nodes.values()] -%}
        {%- for node in among if node.resource_type in ["model", "snapshot", "seed"]
            and (node.alias == relation.identifier and node.schema == relation.schema
                or relation.identifier == fixture ~ node.name) -%}
            {{ return(node) }}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- The node that `--defer` has read in another schema by this name. None of other relations. -#}
{% macro _deferred_node(relation) -%}
    {%- for node in cdc._graph().nodes.values() if node.get("defer_relation") -%}
        {%- if node.defer_relation.alias == relation.identifier and node.defer_relation.schema == relation.schema -%}
            {{ return(node) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- The table of a model or snapshot. -#}
{% macro _relation_of(node) -%}
    {{ return(api.Relation.create(database=none, schema=node.schema, identifier=node.alias, type="table")) }}
{%- endmacro %}


{#- The model that a node reads, where it reads one node. None otherwise, and where that is a source. -#}
{% macro _node_above(node) -%}
    {{ return(graph.nodes.get(node.depends_on.nodes[0]) if node.depends_on.nodes | length == 1 else none) }}
{%- endmacro %}


{#-
    What a node is to this package: `staging`, `resolver`, `history`, `final` or `changelog`; none for all other nodes. A staging
    model, a final table and a changelog are known by the macro that their body calls. Tests and dbt's own snapshots may call it
    too.
-#}
{% macro _kind_of(node) -%}
    {%- if node.config.get("strategy") == "cdc.scd2" -%}
        {{ return("history") }}
    {%- elif node.language == "python" and node.config.get("unique_key") == "_event_id" -%}
        {{ return("resolver") }}
    {%- endif -%}
    {%- for macro, kind in {"events": "staging", "current": "final", "changelog": "changelog"}.items()
        if node.resource_type == "model" and "macro.cdc." ~ macro in node.depends_on.macros -%}
        {{ return(kind) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- Whether a final table reads a staging model, and no history. -#}
{% macro _reads_events(node) -%}
    {%- set above = graph.nodes.get(node.depends_on.nodes | first) if cdc._kind_of(node) == "final" else none -%}
    {{ return(above is not none and above.resource_type != "snapshot") }}
{%- endmacro %}
