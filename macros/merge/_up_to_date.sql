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
            {#- Its types are those of the raw table, which are as they were if who reads the view has nothing new. -#}
            {%- for reader in graph.nodes.values() if reader.depends_on.nodes | list == [model.unique_id] -%}
                {%- if cdc._sees_the_same(reader) or cdc._is_passed_by(reader) -%}{{ return(true) }}{%- endif -%}
            {%- endfor -%}
        {%- endif -%}
        {{ return(false) }}
    {%- endif -%}
    {%- if model.resource_type == "snapshot" and config.get("strategy") == "cdc.scd2" -%}
        {{ return(cdc._sees_the_same(model) or cdc._is_passed_by(model)) }}
    {%- endif -%}
    {{ return(cdc._resolves(model) and cdc._has_resolved_all()) }}
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


{#- What tells the last commit of a table, upkeep apart, from all others; none where only a Spark job could tell. -#}
{% macro _last_commit(relation) -%}
    {{ return(adapter.dispatch("last_commit", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__last_commit(relation) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__last_commit(relation) -%}
    {%- for limit in [1, 20] -%}
        {%- set commits = adapter.newest_commits(relation | string, limit) or [] -%}
        {%- set writes = commits | rejectattr("operation", "in", cdc._upkeep() + ["SET TBLPROPERTIES"]) | list -%}
        {%- if writes or (limit == 20 and commits) -%}
            {{ return((writes or commits)[0].id) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#-
    What a table would be made of now, as one text that its stamp keeps: the same text again means that nothing is new. None where that
    cannot be told.
-#}
{% macro _sight(node, commits) -%}
    {%- if none in commits -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set known = graph.nodes.get(node.unique_id) or node -%}
    {{ return(local_md5([known.config | string, known.raw_code, cdc._upstream_declaration(node) | string, commits] | string)) }}
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


{#- The sight of who reads a staging view of a shared raw table, but for that table's commits. None of others. -#}
{% macro _made_of(node) -%}
    {%- set above = graph.nodes.get(node.depends_on.nodes[0]) if node.depends_on.nodes | length == 1 else none -%}
    {%- set d = cdc._upstream_declaration(node) if above and above.config.materialized == "view" else none -%}
    {%- if not d or not cdc._is_shared(d) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(cdc._sight(node, [cdc._view_text(above.relation_name), cdc._raw_types(d.relation)])) }}
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


{#- The columns of a raw table, asked once in a run, as long as nothing is committed to it. None where no catalog is at hand. -#}
{% macro _raw_types(relation) -%}
    {{ return(adapter.dispatch("raw_types", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__raw_types(relation) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__raw_types(relation) -%}
    {%- set name = [invocation_id, "types", relation, cdc._last_commit(relation)] | string -%}
    {{ return(adapter.once(name, cdc._column_types, "select * from " ~ relation) | string) }}
{%- endmacro %}


{#-
    Whether a resolver's table has all events that there are. Where it has not, what the stamp of its merge is to say is noted for that,
    before the events are read.
-#}
{% macro _has_resolved_all() -%}
    {%- set may_end = config.get("on_schema_change") in [none, "ignore"] -%}
    {%- do model.update({"cdc_resolved": may_end and (cdc._sees_the_same(model) or cdc._is_passed_by(model))}) -%}
    {%- if not model.cdc_resolved -%}
        {%- set d = cdc._upstream_declaration(model) -%}
        {%- set position = {"sight": cdc._sight_of_events(model), "made": cdc._made_of(model)} -%}
        {%- if d and cdc._is_shared(d) -%}
            {%- set last = cdc._read_stamp(this).get("read_to") -%}
            {%- set unread = {"declaration": d, "read_from": last, "read_to": none} -%}
            {%- set newest = run_query("select max(" ~ d.arrival ~ ") filter (where " ~ cdc._may_be_of_table(d) ~ ") "
                ~ cdc._from_new_rows(unread)).rows[0][0] -%}
            {%- do position.update({"read_to": last if newest is none else newest}) -%}
        {%- endif -%}
        {%- do model.update({"cdc_position": position}) -%}
    {%- endif -%}
    {{ return(model.cdc_resolved) }}
{%- endmacro %}
