{#-
    The snapshots and models whose tables this package manages: all, or the one of a name.
      others   names of models that the operation takes as well, for the message
-#}
{% macro _managed_nodes(name=none, others=[]) -%}
    {%- set kept = [] -%}
    {%- set names = others | list -%}
    {%- for node in graph.nodes.values() -%}
        {%- if cdc._kind_of(node) in ["history", "final"] -%}
            {%- do names.append(node.name) -%}
            {%- if name in [none, node.name] -%}{%- do kept.append(node) -%}{%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if name is not none and not kept and name not in others -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ name ~ " is not a table that this package manages. These are: " ~ (names | sort | join(", ")) ~ "."
        ) -%}
    {%- endif -%}
    {{ return(kept) }}
{%- endmacro %}


{#-
    Their Delta and Iceberg tables, those of their tombstones, and after them the tables that their events come from: all, or those
    of the one model of a name, as far as they are there.
-#}
{% macro _managed_tables(name) -%}
    {%- set inputs = cdc._input_tables() -%}
    {%- set there = [] -%}
    {%- for node in cdc._managed_nodes(name, inputs.keys()) if not cdc._is_parquet(node) -%}
        {%- set relation = cdc._relation_of(node) -%}
        {%- for candidate in [relation, cdc._tombstones_of(relation)]
            if load_relation(candidate) is not none and not load_relation(candidate).is_view -%}
            {%- do there.append(candidate) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for model, relations in inputs.items() if name in [none, model] -%}
        {%- for candidate in relations if load_relation(candidate) is not none and load_relation(candidate).is_delta -%}
            {%- do there.append(candidate) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(there) }}
{%- endmacro %}


{#-
    The tables of resolvers, and those of landing models with the raw tables that their configuration names: relations by the name
    of the model.
-#}
{% macro _input_tables() -%}
    {%- set found = {} -%}
    {%- for node in graph.nodes.values() if node.resource_type == "model" -%}
        {%- set raw = node.config.get("raw_table") -%}
        {%- set lands_from = node.config.get("landing_folder") or node.config.get("topics") -%}
        {%- set lands = raw is string and node.language == "python" and lands_from -%}
        {%- if lands or cdc._kind_of(node) == "resolver" -%}
            {%- do found.update({node.name: [cdc._relation_of(node)]}) -%}
        {%- endif -%}
        {%- set parts = (raw | lower | replace("`", "")).split(".") if lands else [] -%}
        {%- if parts | length > 1 -%}
            {%- do found[node.name].append(api.Relation.create(schema=parts[:-1] | join("."), identifier=parts[-1])) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{%- endmacro %}
