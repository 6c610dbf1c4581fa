{#-
    The hook of the embedded Spark's adapter: whether a staging view or a history would stay what it is, as catalog and Delta's log tell
    without a Spark job. What dbt does beside that is for dbt to do.
-#}
{% macro sparkcdc__is_up_to_date() -%}
    {%- set more = [config.get("pre_hook"), config.get("post_hook"), config.get("grants"), config.get("persist_docs")] -%}
    {%- if should_full_refresh() or more | select | list -%}
        {{ return(false) }}
    {%- elif "macro.cdc.events" in model.depends_on.macros -%}
        {#- Spark keeps no comments before the query. -#}
        {%- set query = modules.re.sub("^(\\s*--[^\\n]*\\n)*", "", model.compiled_code) | trim -%}
        {%- if model.config.materialized == "view" and adapter.view_text(this | string) == query -%}
            {#- Its types are those of the raw table, which has not changed if who reads the view has nothing new. -#}
            {%- for reader in graph.nodes.values() if reader.depends_on.nodes | list == [model.unique_id] -%}
                {%- if cdc._sees_the_same(reader) -%}{{ return(true) }}{%- endif -%}
            {%- endfor -%}
        {%- endif -%}
        {{ return(false) }}
    {%- endif -%}
    {{ return(model.resource_type == "snapshot" and config.get("strategy") == "cdc.scd2" and cdc._sees_the_same(model)) }}
{%- endmacro %}


{#- Whether a table that reads events would be made of what its stamp says that it was made of. -#}
{% macro _sees_the_same(node) -%}
    {%- set target = api.Relation.create(database=none, schema=node.schema, identifier=node.alias, type="table") -%}
    {{ return(cdc._last_commit(target) is not none and cdc._is_stamped(target, cdc._sight_of_events(node))) }}
{%- endmacro %}


{#- Whether a table was made of this sight. -#}
{% macro _is_stamped(relation, sight) -%}
    {{ return(sight is not none and cdc._read_stamp(relation).get("sight") == sight) }}
{%- endmacro %}


{#- What tells the last commit of a table from all others; none where only a Spark job could tell. -#}
{% macro _last_commit(relation) -%}
    {{ return(adapter.dispatch("last_commit", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__last_commit(relation) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__last_commit(relation) -%}
    {%- set commits = adapter.newest_commits(relation | string, 1) -%}
    {{ return(commits[0].id if commits else none) }}
{%- endmacro %}


{#-
    What a table would be made of now, as one text that its stamp keeps: the same text again means that nothing is new. None where that
    cannot be told.
-#}
{% macro _sight(node, commits) -%}
    {%- if none in commits -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set config = (graph.nodes.get(node.unique_id) or node).config | string -%}
    {{ return(local_md5([config, cdc._upstream_declaration(node) | string, commits] | string)) }}
{%- endmacro %}


{#- The sight of who reads the events of a staging model, or of the resolver's table. -#}
{% macro _sight_of_events(node) -%}
    {%- set above = graph.nodes.get(node.depends_on.nodes[0]) if node.depends_on.nodes | length == 1 else none -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- if above is none or declaration is none -%}
        {{ return(none) }}
    {%- elif above.config.materialized == "view" -%}
        {{ return(cdc._sight(node, [cdc._view_text(above.relation_name), cdc._last_commit(declaration.relation)])) }}
    {%- endif -%}
    {{ return(cdc._sight(node, [cdc._last_commit(above.relation_name)])) }}
{%- endmacro %}


{% macro _view_text(relation) -%}
    {{ return(adapter.dispatch("view_text", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__view_text(relation) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__view_text(relation) -%}
    {{ return(adapter.view_text(relation)) }}
{%- endmacro %}
