{#- Whether a table that reads events would be made of what its checkpoint says that it was made of. -#}
{% macro _has_same_input(node) -%}
    {%- set target = cdc._relation_of(node) -%}
    {{ return(cdc._last_commit(target) is not none and cdc._has_fingerprint(target, cdc._events_fingerprint(node))) }}
{%- endmacro %}


{#- Whether a table was made of this fingerprint, and nothing about that is still to be checked, see `_check_split`. -#}
{% macro _has_fingerprint(relation, fingerprint) -%}
    {%- if fingerprint is none -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set checkpoint = cdc._read_checkpoint(relation) -%}
    {{ return(checkpoint.get("fingerprint") == fingerprint and not checkpoint.get("split")) }}
{%- endmacro %}


{#- What tells the last commit of a table that wrote rows from all others; none where only a Spark job could tell. -#}
{% macro _last_commit(relation) -%}
    {{ return(adapter.dispatch("last_commit", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__last_commit(relation) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__last_commit(relation) -%}
    {{ return(adapter.last_write(relation | string, cdc._maintenance())) }}
{%- endmacro %}


{#-
    What a table would be made of now, as one text that its checkpoint keeps: the same text again means that nothing is new. None
    where that is unknown.
-#}
{% macro _fingerprint(node, commits) -%}
    {%- if none in commits -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set known = graph.nodes.get(node.unique_id) or node -%}
    {{ return(local_md5([known.config | string, known.raw_code, cdc._upstream_declaration(node) | string, commits] | string)) }}
{%- endmacro %}


{#- The fingerprint of who reads the events of a staging model, or of the resolver's table. -#}
{% macro _events_fingerprint(node) -%}
    {%- set above = cdc._node_above(node) -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- if above is none or declaration is none -%}
        {{ return(none) }}
    {%- elif above.config.materialized == "view" -%}
        {{ return(cdc._fingerprint(node, [cdc._view_text(above.relation_name), cdc._last_commit(declaration.relation)]
            + cdc._bootstrap_commits(declaration) + cdc._amendment_commits(declaration))) }}
    {%- endif -%}
    {{ return(cdc._fingerprint(node, [cdc._last_commit(above.relation_name)])) }}
{%- endmacro %}


{#- The fingerprint of who reads a staging view, but for the raw table's commits. None of others, and where no log tells. -#}
{% macro _declared_fingerprint(node) -%}
    {%- set above = cdc._node_above(node) -%}
    {%- set is_view = above and above.config.materialized == "view" -%}
    {%- set raw = cdc._raw_fingerprint(cdc._upstream_declaration(node)) if is_view else none -%}
    {%- set view_text = cdc._view_text(above.relation_name) if raw else none -%}
    {{ return(none if view_text is none else cdc._fingerprint(node, [view_text] + raw)) }}
{%- endmacro %}


{#- The fingerprint of a staging view, but for its text. None where no log tells. -#}
{% macro _view_fingerprint(node) -%}
    {%- set raw = cdc._raw_fingerprint(cdc._upstream_declaration(node)) -%}
    {{ return(none if raw is none else cdc._fingerprint(node, raw)) }}
{%- endmacro %}


{#- The columns and the identity of a raw table, and the commits of what is read beside it. None where no log tells. -#}
{% macro _raw_fingerprint(d) -%}
    {%- if not d or d.problems or cdc._last_commit(d.relation) is none -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return([cdc._raw_types(d.relation), cdc._table_id(d.relation)] + cdc._bootstrap_commits(d) + cdc._amendment_commits(d)) }}
{%- endmacro %}


{#- Whether a table that reads a staging view was made of this view and of raw columns of these types. -#}
{% macro _has_same_declaration(node) -%}
    {%- set target = cdc._relation_of(node) -%}
    {%- set made = cdc._declared_fingerprint(node) if cdc._last_commit(target) is not none else none -%}
    {%- set checkpoint = cdc._read_checkpoint(target) if made is not none else {} -%}
    {{ return(made is not none and made == checkpoint.get("declared") and not checkpoint.get("part")) }}
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


{#- The columns of a raw table, asked once in a run, as long as nothing is committed to it. For the embedded Spark's adapter. -#}
{% macro _raw_types(relation) -%}
    {%- set name = [invocation_id, "types", relation, cdc._last_commit(relation)] | string -%}
    {{ return(adapter.once(name, cdc._table_types, relation) | string) }}
{%- endmacro %}


{#- Whether a resolver's table has all events that there are. -#}
{% macro _has_resolved_all() -%}
    {%- set may_stay = config.get("on_schema_change") in [none, "ignore"] -%}
    {{ return(may_stay and (cdc._has_same_input(model) or cdc._is_unaffected(model))) }}
{%- endmacro %}
