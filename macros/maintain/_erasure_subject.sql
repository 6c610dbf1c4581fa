{#-
    What a name stands for, and what is made of the same source table:
      declaration   of the source table
      named         the table that the condition is asked of: `name`, and `relation`, none for the source table
      tables        what holds its rows: `role`, `name`, `relation`, `node` and, of a final table or changelog, `above`
      views         the staging views
      others        models that read these tables and are not the package's to change
      resolver      the resolver's table, where keys change; none before it is built. `resolver_name` is the name of its model
-#}
{% macro _erasure_subject(table, operation="cdc_erase") -%}
    {%- if table is none -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ operation ~ " needs a `table`: a history, a final table or a declared source table."
        ) -%}
    {%- endif -%}
    {%- set found = [] -%}
    {%- set names = [] -%}
    {%- for source in graph.sources.values() if (source.config.get("meta") or source.meta or {}).get("cdc") is not none -%}
        {%- set full_name = source.source_name ~ "." ~ source.name -%}
        {%- do names.append(full_name) -%}
        {%- if table == full_name -%}
            {%- do found.append({
                "name": full_name, "relation": none, "node": none, "declaration": cdc._read_declaration(source),
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set managed = cdc._managed_nodes() -%}
    {%- for node in managed -%}
        {%- do names.append(node.name) -%}
        {%- if node.name == table -%}
            {%- do found.append({
                "name": node.name, "relation": cdc._relation_of(node), "node": node, "declaration": cdc._upstream_declaration(node),
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not found or not found[0].declaration -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ table
            ~ " is not a history, a final table or a declared source table of this project."
            ~ " These are: " ~ (names | sort | join(", ")) ~ ".") -%}
    {%- endif -%}
    {%- set named = found[0] -%}
    {%- set tables, views, ids = [], [], [] -%}
    {%- set amendments = cdc._amendments_of(named.declaration) -%}
    {%- if amendments -%}
        {%- do cdc._evolve_amendments(named.declaration, amendments, []) -%}
        {%- do tables.append(cdc._erased_table("amendments", "the amendments of " ~ named.declaration.table, amendments)) -%}
    {%- endif -%}
    {%- for node in graph.nodes.values() if cdc._kind_of(node) == "staging"
        and cdc._declared_names(node) == [named.declaration.table] -%}
        {%- do views.append(node) -%}
        {%- do ids.append(node.unique_id) -%}
    {%- endfor -%}
    {%- set resolvers = [] -%}
    {%- for node in graph.nodes.values() if named.declaration.key_changes and cdc._kind_of(node) == "resolver"
        and cdc._declared_names(node) == [named.declaration.table] -%}
        {%- do ids.append(node.unique_id) -%}
        {%- set part = cdc._erased_table("keys", node.name, cdc._relation_of(node), node) -%}
        {%- do resolvers.append({"name": node.name, "table": part}) -%}
        {%- if part -%}{%- do tables.append(part) -%}{%- endif -%}
    {%- endfor -%}
    {%- for node in managed if cdc._declared_names(node) == [named.declaration.table] -%}
        {%- set relation = cdc._relation_of(node) -%}
        {%- set is_history = cdc._kind_of(node) == "history" -%}
        {%- do ids.append(node.unique_id) -%}
        {%- for part in ([cdc._erased_table("tombstones", node.name ~ "_tombstones", cdc._tombstones_of(relation))] if is_history
            else [])
            + [cdc._erased_table("history" if is_history else "final", node.name, relation, node)] if part -%}
            {%- do tables.append(part) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for node in graph.nodes.values() if cdc._kind_of(node) == "changelog"
        and node.depends_on.nodes | first in ids -%}
        {%- set part = cdc._erased_table("changelog", node.name, cdc._relation_of(node), node) -%}
        {%- if part -%}{%- do tables.append(part) -%}{%- endif -%}
        {%- do ids.append(node.unique_id) -%}
    {%- endfor -%}
    {%- set others = [] -%}
    {%- for node in graph.nodes.values() if node.resource_type in ["model", "snapshot"] and node.unique_id not in ids
        and node.config.materialized not in ["view", "ephemeral"] and node.depends_on.nodes | select("in", ids) | list -%}
        {%- do others.append(node.name) -%}
    {%- endfor -%}
    {{ return({"declaration": named.declaration, "named": named, "tables": tables, "views": views, "others": others,
        "resolvers": resolvers | length, "resolver_name": resolvers[0].name if resolvers else none,
        "resolver": resolvers[0].table.relation if resolvers and resolvers[0].table else none}) }}
{%- endmacro %}


{#- The declared source tables that a node is made of, by name. -#}
{% macro _declared_names(node) -%}
    {%- set names = [] -%}
    {%- for source in cdc._declared_sources(node) -%}{%- do names.append(source.source_name ~ "." ~ source.name) -%}{%- endfor -%}
    {{ return(names) }}
{%- endmacro %}


{#- A table that rows are erased from; none where it is not there or is a view. -#}
{% macro _erased_table(role, name, relation, node=none) -%}
    {%- set there = load_relation(relation) -%}
    {%- if there is none or there.is_view -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({"role": role, "name": name, "relation": relation, "node": node,
        "above": node.depends_on.nodes | first if node else none}) }}
{%- endmacro %}
