{#-
    What the materializations of the adapter `type: sparkcdc` ask of this package, in the order in which they do. They are in
    `src/dbt/include/sparkcdc/macros/up_to_date.sql`, and so is what becomes of nodes that are not this package's. Elsewhere
    dbt-spark's own materializations run. They know none of these, and call dbt's hooks, which have files of their own:
    `spark__get_merge_sql` and the like.
-#}

{#-
    Whether a staging view, a history or a resolver's table would stay what it is, as catalog and Delta's log tell without a Spark
    job. What dbt does beside that is for dbt to do.
-#}
{% macro sparkcdc__is_up_to_date() -%}
    {%- set more = [config.get("pre_hook"), config.get("post_hook"), config.get("grants"), config.get("persist_docs")] -%}
    {%- set kind = cdc._kind_of(model) -%}
    {%- if should_full_refresh() or more | select | list -%}
        {{ return(false) }}
    {%- elif kind == "staging" -%}
        {#- Spark keeps no comments before the query. -#}
        {%- set query = modules.re.sub("^(\\s*--[^\\n]*\\n)*", "", model.compiled_code) | trim -%}
        {%- if model.config.materialized == "view" and adapter.view_text(this | string) == query -%}
            {%- set readers = adapter.once([invocation_id, "sole readers"] | string, cdc._sole_readers) -%}
            {%- for reader in readers.get(model.unique_id, []) if cdc._has_same_input(reader) -%}{{ return(true) }}{%- endfor -%}
            {#- Spark casts what a view reads to the types that the view was created with. A reader may have noted later ones. -#}
            {%- set declared = cdc._view_fingerprint(model) -%}
            {{ return(declared is not none and adapter.view_property(this | string, "cdc.declared") == declared) }}
        {%- endif -%}
    {%- elif kind == "history" -%}
        {{ return(cdc._has_same_input(model) or cdc._is_unaffected(model)) }}
    {%- elif kind == "resolver" -%}
        {{ return(cdc._has_resolved_all()) }}
    {%- endif -%}
    {{ return(false) }}
{%- endmacro %}


{#-
    By what they read, the nodes that read nothing else. Looked for once in a run, so that not every staging view goes through all
    nodes of the project.
-#}
{% macro _sole_readers() -%}
    {%- set readers = {} -%}
    {%- for node in graph.nodes.values() if node.depends_on.nodes | length == 1 -%}
        {%- do readers.setdefault(node.depends_on.nodes[0], []).append(node) -%}
    {%- endfor -%}
    {{ return(readers) }}
{%- endmacro %}


{#- The properties of a view, which say what a staging view was created over. -#}
{% macro sparkcdc__view_properties() -%}
    {%- set declared = cdc._view_fingerprint(model) if cdc._kind_of(model) == "staging" else none -%}
    {{ return({} if declared is none else {"cdc.declared": declared}) }}
{%- endmacro %}


{#- Whether a history, a final table or a changelog that is there brings itself up to date. -#}
{% macro sparkcdc__updates_itself() -%}
    {%- set kind = cdc._kind_of(model) -%}
    {%- set existing = load_relation(this) if kind in ["history", "final", "changelog"] else none -%}
    {{ return(existing is not none and not existing.is_view and (kind == "history" or not should_full_refresh())) }}
{%- endmacro %}


{#- Brings it up to date. dbt itself only adds the columns that `on_schema_change` asks for. -#}
{% macro sparkcdc__batch_update() -%}
    {%- set kind = cdc._kind_of(model) -%}
    {%- if kind == "history" -%}
        {{ return(cdc._update_history(model)) }}
    {%- elif kind == "changelog" -%}
        {{ return(cdc._update_changelog(model)) }}
    {%- endif -%}
    {{ return(cdc._update_current(model)) }}
{%- endmacro %}


{#-
    The query that a model is created with: of a large final table without a history the first part, planned for what its events
    are.
-#}
{% macro sparkcdc__first_query(compiled_code) -%}
    {%- if not cdc._reads_events(model) -%}
        {{ return(compiled_code) }}
    {%- endif -%}
    {%- set window = cdc._first_window(cdc._first_lives_spec(model), model) -%}
    {%- if not window.goes_on and (window.few or config.get("materialized") != "incremental") -%}
        {{ return(compiled_code) }}
    {%- endif -%}
    {%- set spec = cdc._lives_spec_of_declaration(model, graph.nodes[model.depends_on.nodes[0]].relation_name) -%}
    {{ return(cdc._first_lives(cdc._with_first_facts(spec, window), window.read_to)) }}
{%- endmacro %}


{#- After a history was created: reads what is left. -#}
{% macro sparkcdc__first_snapshot_done() -%}
    {%- if cdc._kind_of(model) == "history" -%}
        {%- do cdc._check_split(this, model) -%}
        {%- do cdc._finish_load(cdc._update_history) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    After dbt itself has built an incremental model: reads what is left of a large load, and notes the files of plain Parquet. What
    the model's own hooks wrote is no state that later builds may trust: without its files in the checkpoint, the next one replaces
    all rows.
-#}
{% macro sparkcdc__first_build_done() -%}
    {%- set hooks = [config.get("pre_hook"), config.get("post_hook")] | select | list -%}
    {%- if cdc._kind_of(model) == "final" and cdc._is_parquet(model) and not hooks -%}
        {%- set noted = fromjson(cdc._table_properties(this).get("cdc.checkpoint", "{}"), {}) -%}
        {%- if noted -%}{%- do cdc._note_files(this, noted) -%}{%- endif -%}
    {%- elif cdc._reads_events(model) -%}
        {%- do cdc._check_split(this, model) -%}
        {%- do cdc._finish_load(cdc._update_current) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    The checkpoint of what a resolver writes, asked for before its events are read. It also tells the resolver whether to read all
    of them, and not those of later arrivals alone: where somebody else wrote its table, the raw table or its `arrival` is another
    one, or rows were appended with an arrival that was read already. `last` is the checkpoint of the resolver's table that its rows
    are resolved with.
-#}
{% macro sparkcdc__batch_position(looks=3) -%}
    {%- if cdc._kind_of(model) != "resolver" or cdc._reads_a_part() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set problems = cdc._node_problems(model) -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
    {%- endif -%}
    {%- set existing = load_relation(this) -%}
    {%- set there = existing is not none and not existing.is_view and not should_full_refresh() -%}
    {%- set checkpoint = cdc._read_checkpoint(this) if there else {} -%}
    {%- set reads_all = [] if "fingerprint" in checkpoint else [true] -%}
    {%- set d = cdc._upstream_declaration(model) -%}
    {%- set position = cdc._input_position(model, d) -%}
    {%- if d -%}
        {%- do cdc._refuse_other_bootstrap(this, model, d, checkpoint) -%}
    {%- endif -%}
    {%- if d and d.arrival -%}
        {%- do position.update({"raw_version": cdc._raw_version(d)}) -%}
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
        {%- do position.update({"read_to": last if newest is none else cdc._place(newest, d)}) -%}
    {%- endif -%}
    {{ return({"checkpoint": position, "reads_all": there and reads_all | length > 0, "last": checkpoint}) }}
{%- endmacro %}


{#- Has the commit that creates a resolver's table carry this checkpoint. -#}
{% macro sparkcdc__set_batch_position(position) -%}
    {%- do cdc._set_checkpoint(this, position) -%}
{%- endmacro %}


{#-
    Merges a batch of resolved events, with its checkpoint: what they were resolved with is the version of the table from before. A
    merge of no rows makes no commit: its checkpoint is one by itself then.
      written   the temporary view that shows the batch
-#}
{% macro sparkcdc__write_batch(sql, written, batch) -%}
    {%- if not batch.get("checkpoint") -%}
        {{ return(dbt.default__write_batch(sql, written, batch)) }}
    {%- endif -%}
    {%- if run_query("select 1 from " ~ written ~ " limit 1").rows | length -%}
        {%- set text = cdc._checkpoint_text(this, dict(batch.checkpoint, build=invocation_id, base=batch.last.at)) -%}
        {%- if not adapter.write_changes(this | string, sql, batch.last.at, text, false, cdc._maintenance()) -%}
            {%- do cdc._refuse_other_writer(this, batch.last.at) -%}
        {%- endif -%}
        {%- do cdc._add_vectors_if_large(this) -%}
    {%- else -%}
        {%- do cdc._note_nothing_new(this, {"position": batch.checkpoint}, batch.last) -%}
    {%- endif -%}
    {%- call noop_statement("main", "OK") -%}{{ sql }}{%- endcall -%}
{%- endmacro %}
