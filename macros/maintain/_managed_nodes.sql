{#- The snapshots and models whose tables this package manages: all, or the one of a name. -#}
{% macro _managed_nodes(name=none) -%}
    {%- set kept = [] -%}
    {%- set names = [] -%}
    {%- for node in graph.nodes.values() -%}
        {%- if cdc._kind_of(node) in ["history", "final"] -%}
            {%- do names.append(node.name) -%}
            {%- if name in [none, node.name] -%}{%- do kept.append(node) -%}{%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if name is not none and not kept -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ name ~ " is not a table that this package manages. These are: " ~ (names | sort | join(", ")) ~ "."
        ) -%}
    {%- endif -%}
    {{ return(kept) }}
{%- endmacro %}


{#- Their tables of Delta and Iceberg, those of their tombstones, and the tables that their events come from, as far as they are there. -#}
{% macro _managed_tables(name) -%}
    {%- set found = cdc._input_tables(name) -%}
    {%- for node in (cdc._managed_nodes(name) if name is none or not found else []) if not cdc._is_parquet(node) -%}
        {%- set relation = cdc._relation_of(node) -%}
        {%- do found.extend([relation, cdc._tombstones_of(relation)]) -%}
    {%- endfor -%}
    {%- set there = [] -%}
    {%- for relation in found if load_relation(relation) is not none and not load_relation(relation).is_view -%}
        {%- do there.append(relation) -%}
    {%- endfor -%}
    {{ return(there) }}
{%- endmacro %}


{#- The tables of resolvers and of landing models, whose raw table is named in the configuration: all, or those of the one model. -#}
{% macro _input_tables(name) -%}
    {%- set found = [] -%}
    {%- for node in graph.nodes.values() if node.resource_type == "model" and name in [none, node.name] -%}
        {%- set raw = node.config.get("raw_table") if node.language == "python" else none -%}
        {%- if raw or cdc._kind_of(node) == "resolver" -%}
            {%- do found.append(cdc._relation_of(node)) -%}
        {%- endif -%}
        {%- if raw -%}
            {%- set parts = raw.split(".") -%}
            {%- do found.append(api.Relation.create(schema=parts[:-1] | join("."), identifier=parts[-1])) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{%- endmacro %}
