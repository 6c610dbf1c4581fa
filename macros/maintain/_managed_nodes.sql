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


{#- Their tables of Delta and Iceberg, and those of their tombstones, as far as they are there. -#}
{% macro _managed_tables(name) -%}
    {%- set there = [] -%}
    {%- for node in cdc._managed_nodes(name) if not cdc._is_parquet(node) -%}
        {%- set relation = cdc._relation_of(node) -%}
        {%- for candidate in [relation, cdc._tombstones_of(relation)]
            if load_relation(candidate) is not none and not load_relation(candidate).is_view -%}
            {%- do there.append(candidate) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(there) }}
{%- endmacro %}
