{#-
    The hook of the embedded Spark's adapter: whether a staging view, a history or a resolver's table would stay what it is, as catalog
    and Delta's log tell without a Spark job. What dbt does beside that is for dbt to do.
-#}
{% macro sparkcdc__is_up_to_date() -%}
    {%- set more = [config.get("pre_hook"), config.get("post_hook"), config.get("grants"), config.get("persist_docs")] -%}
    {%- if should_full_refresh() or more | select | list -%}
        {{ return(false) }}
    {%- elif "macro.cdc.events" in model.depends_on.macros -%}
        {#- Spark keeps no comments before the query. -#}
        {%- set query = modules.re.sub("^(\\s*--[^\\n]*\\n)*", "", model.compiled_code) | trim -%}
        {%- if model.config.materialized == "view" and adapter.view_text(this | string) == query -%}
            {%- for reader in graph.nodes.values() if reader.depends_on.nodes | list == [model.unique_id] -%}
                {%- if cdc._has_same_input(reader) -%}{{ return(true) }}{%- endif -%}
            {%- endfor -%}
            {#- Spark casts what a view reads to the types that the view was created with. A reader may have noted later ones. -#}
            {%- set declared = cdc._view_fingerprint(model) -%}
            {{ return(declared is not none and adapter.view_property(this | string, "cdc.declared") == declared) }}
        {%- endif -%}
        {{ return(false) }}
    {%- endif -%}
    {%- if model.resource_type == "snapshot" and config.get("strategy") == "cdc.scd2" -%}
        {{ return(cdc._has_same_input(model) or cdc._is_unaffected(model)) }}
    {%- endif -%}
    {{ return(cdc._resolves(model) and cdc._has_resolved_all()) }}
{%- endmacro %}


{#- The hook of the embedded Spark's adapter: the properties of a view, which say what a staging view was created over. -#}
{% macro sparkcdc__view_properties() -%}
    {%- set declared = cdc._view_fingerprint(model) if "macro.cdc.events" in model.depends_on.macros else none -%}
    {{ return({} if declared is none else {"cdc.declared": declared}) }}
{%- endmacro %}


{#- The hook of the embedded Spark's adapter: whether a history or a final table that is there brings itself up to date. -#}
{% macro sparkcdc__updates_itself() -%}
    {%- set is_ours = config.get("strategy") == "cdc.scd2" if model.resource_type == "snapshot"
        else "macro.cdc.current" in model.depends_on.macros or "macro.cdc.changelog" in model.depends_on.macros -%}
    {%- set existing = load_relation(this) if is_ours else none -%}
    {{ return(existing is not none and not existing.is_view and (model.resource_type == "snapshot" or not should_full_refresh())) }}
{%- endmacro %}


{#- The hook of the embedded Spark's adapter that does so. dbt itself only adds the columns that `on_schema_change` asks for. -#}
{% macro sparkcdc__batch_update() -%}
    {%- if model.resource_type == "snapshot" -%}
        {{ return(cdc._update_history(model)) }}
    {%- elif "macro.cdc.changelog" in model.depends_on.macros -%}
        {{ return(cdc._update_changelog(model)) }}
    {%- endif -%}
    {{ return(cdc._update_current(model)) }}
{%- endmacro %}


{#- Whether a table that reads events would be made of what its checkpoint says that it was made of. -#}
{% macro _has_same_input(node) -%}
    {%- set target = cdc._relation_of(node) -%}
    {{ return(cdc._last_commit(target) is not none and cdc._has_fingerprint(target, cdc._events_fingerprint(node))) }}
{%- endmacro %}


{#- Whether a table was made of this fingerprint. -#}
{% macro _has_fingerprint(relation, fingerprint) -%}
    {{ return(fingerprint is not none and cdc._read_checkpoint(relation).get("fingerprint") == fingerprint) }}
{%- endmacro %}


{#- What tells the last commit of a table, upkeep apart, from all others; none where only a Spark job could tell. -#}
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
    What a table would be made of now, as one text that its checkpoint keeps: the same text again means that nothing is new. None where that
    cannot be told.
-#}
{% macro _fingerprint(node, commits) -%}
    {%- if none in commits -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set known = graph.nodes.get(node.unique_id) or node -%}
    {{ return(local_md5([known.config | string, known.raw_code, cdc._upstream_declaration(node) | string, commits] | string)) }}
{%- endmacro %}


{#- The model that a node reads, where it reads one node. None otherwise, and where that is a source. -#}
{% macro _node_above(node) -%}
    {{ return(graph.nodes.get(node.depends_on.nodes[0]) if node.depends_on.nodes | length == 1 else none) }}
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


{#-
    The hook of the embedded Spark's adapter for the checkpoint of what a resolver writes, asked for before its events are read. It also tells
    the resolver whether to read all of them, and not those of later arrivals alone: where somebody else wrote its table, the raw table or
    its `arrival` is another one, or rows were appended with an arrival that was read already.
-#}
{% macro sparkcdc__batch_position(looks=3) -%}
    {%- if not cdc._resolves(model) or cdc._reads_a_part() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set there = load_relation(this) is not none and not should_full_refresh() -%}
    {%- set checkpoint = cdc._read_checkpoint(this) if there else {} -%}
    {%- set reads_all = [] if "fingerprint" in checkpoint else [true] -%}
    {%- set position = {"fingerprint": cdc._events_fingerprint(model), "declared": cdc._declared_fingerprint(model)} -%}
    {%- set d = cdc._upstream_declaration(model) -%}
    {%- if d -%}
        {%- do position.update(cdc._bootstrap_position(d)) -%}
        {%- do cdc._refuse_other_bootstrap(this, model, d, checkpoint) -%}
    {%- endif -%}
    {%- if d and d.arrival -%}
        {%- do position.update({"arrival": d.arrival, "raw_id": cdc._table_id(d.relation), "raw_version": cdc._raw_version(d)}) -%}
        {%- set own = cdc._own_checkpoint({"relation": this, "rebuild": false}, d, checkpoint, position.raw_id) -%}
        {%- set last = own.get("read_to") -%}
        {%- set is_asked = last is not none and own.get("raw_version") is not none and cdc._is_noted_of(own, position.raw_id) -%}
        {%- set appended = cdc._appended(d, last, own.raw_version) if is_asked else none -%}
        {%- if own != checkpoint or (appended and appended.is_behind(last)) -%}
            {%- do reads_all.append(true) -%}
        {%- endif -%}
        {%- set newest = run_query("select max(" ~ d.arrival ~ ") filter (where " ~ cdc._may_be_of_table(d) ~ ") "
            ~ cdc._from_new_rows(d, last)).rows[0][0] -%}
        {%- if cdc._raw_version(d) != position.raw_version and looks > 1 -%}
            {#- See `_new_data`. -#}
            {{ return(cdc.sparkcdc__batch_position(looks - 1)) }}
        {%- endif -%}
        {%- do position.update({"read_to": last if newest is none else newest}) -%}
    {%- endif -%}
    {{ return({"checkpoint": position, "reads_all": there and reads_all | length > 0, "version": checkpoint.get("at")}) }}
{%- endmacro %}


{#- The hook of the embedded Spark's adapter that sets this checkpoint for the commit that writes the rows. -#}
{% macro sparkcdc__set_batch_position(position) -%}
    {%- do cdc._set_checkpoint(this, position) -%}
{%- endmacro %}


{#- The hook of the embedded Spark's adapter for such a checkpoint after the write, which made no commit if it had no rows. -#}
{% macro sparkcdc__keep_batch_position(position) -%}
    {%- do cdc._commit_checkpoint(this, position, cdc._read_checkpoint(this)) -%}
{%- endmacro %}
