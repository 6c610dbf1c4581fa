{#-
    A large load in parts of the ingestion sequence. Each part is a batch with a commit and a checkpoint of its own, so that a
    load that is killed goes on with the next part. The checkpoint of each but the last says that it is a `part`.
-#}

{#-
    Runs batches of a table until all is read. Returns what came of the last one.
      update   the macro for one batch, which returns none where there is more to read
      node     the model or snapshot
-#}
{% macro _all_parts(update, node) -%}
    {%- for part in range(10000) -%}
        {%- set outcome = update(node) -%}
        {%- if outcome is not none -%}
            {%- do cdc._end_load() -%}
            {{ return(outcome) }}
        {%- endif -%}
    {%- endfor -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: 10,000 parts of " ~ cdc._relation_of(node) ~ " are loaded, and there is more to read. Run the build again: it"
        ~ " continues from here. `max_rows_per_commit` in the profile makes the parts larger."
    ) -%}
{%- endmacro %}


{#-
    Stops a first load that goes on under another declaration: the rows that are there, and those that are not, are what the
    former one made of the events. A full refresh starts over.
-#}
{% macro _refuse_other_load(spec, d, checkpoint) -%}
    {%- set load = (checkpoint.get("part") or {}).get("load") -%}
    {%- if load and load != local_md5(d | string) and not spec.rebuild -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: the first load of " ~ spec.relation ~ " ended at `" ~ d.arrival ~ "` " ~ checkpoint.read_to ~ ", and the declaration of "
            ~ d.table ~ " has changed since. Nothing was written. Undo the change to continue the load, or start over: dbt build"
            ~ " --full-refresh --select " ~ spec.node.name
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    Where the first of several parts of equal size ends (`read_to`), and how many raw rows it has (`raw_rows`); none where all is
    read at once. So it is where more than the rows of these arrivals decide: key changes that a resolver has seen, a lookback
    window, an order of batches, amendments, whole histories that are folded again.
-#}
{% macro _first_part(spec, d, read_from, read_to, raw_rows) -%}
    {%- set most = cdc._rows_at_once() -%}
    {%- set is_one = not most or raw_rows <= most or spec.follows or spec.rebuild or not d or not d.arrival or d.arrival_overlap
        or d.batch_order or read_to is none -%}
    {%- if is_one or cdc._amendments_of(d) is not none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set parts = (raw_rows / most) | round(0, "ceil") | int -%}
    {%- set cut = run_query("select cast(percentile_approx(" ~ d.arrival ~ ", " ~ 1 / parts ~ ", 10000) as bigint) "
        ~ cdc._from_new_rows(d, read_from, read_to)).rows[0][0] -%}
    {%- if cut is none -%}
        {{ return(none) }}
    {%- endif -%}
    {#- A percentile is a double: large numbers are there as others. -#}
    {%- set found = run_query("select max(" ~ d.arrival ~ "), count(*) " ~ cdc._from_new_rows(d, read_from, cut)).rows[0] -%}
    {%- set end = cdc._place(found[0], d) -%}
    {%- if end is none or end >= read_to -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set snapshot = cdc._bootstrap_rows(d) if read_from is none else 0 -%}
    {{ return({"read_to": end, "raw_rows": found[1] + snapshot}) }}
{%- endmacro %}


{#- How many raw rows one commit may hold; none where a load is one commit. -#}
{% macro _rows_at_once() -%}
    {{ return(adapter.dispatch("rows_at_once", "cdc")()) }}
{%- endmacro %}


{#- dbt-spark's own materializations end with the first build. -#}
{% macro default__rows_at_once() -%}
    {{ return(none) }}
{%- endmacro %}


{#- The hooks of a node expect the whole table. -#}
{% macro sparkcdc__rows_at_once() -%}
    {{ return(none if [config.get("pre_hook"), config.get("post_hook")] | select | list else adapter.rows_at_once()) }}
{%- endmacro %}


{#- Begins to report how far a load is, where there is more to read than a few rows. -#}
{% macro _begin_load(spec, window) -%}
    {{ return(adapter.dispatch("begin_load", "cdc")(spec, window)) }}
{%- endmacro %}


{% macro default__begin_load(spec, window) -%}{%- endmacro %}


{% macro sparkcdc__begin_load(spec, window) -%}
    {%- if window.raw_rows is not none and not window.few -%}
        {%- do adapter.begin_load(spec.relation | string, window.raw_rows, window.rows_left) -%}
    {%- endif -%}
{%- endmacro %}


{#- Ends the report of a load. -#}
{% macro _end_load() -%}
    {{ return(adapter.dispatch("end_load", "cdc")()) }}
{%- endmacro %}


{% macro default__end_load() -%}{%- endmacro %}


{% macro sparkcdc__end_load() -%}
    {%- do adapter.end_load() -%}
{%- endmacro %}


{#- Notes the checkpoint of a final table without a history for the commit with which dbt creates it. -#}
{% macro _note_first_window(spec, node) -%}
    {{ return(adapter.dispatch("note_first_window", "cdc")(spec, node)) }}
{%- endmacro %}


{% macro default__note_first_window(spec, node) -%}
    {%- do cdc._first_window(spec, node) -%}
{%- endmacro %}


{#- `sparkcdc__first_query` has done so: the query and the checkpoint are of one look at the raw table. -#}
{% macro sparkcdc__note_first_window(spec, node) -%}{%- endmacro %}


{#-
    Reads what is left of a load whose first part has created the table of this node.
      update   the macro that brings the table up to date
-#}
{% macro _finish_load(update) -%}
    {%- if cdc._read_checkpoint(this).get("part") -%}
        {%- do adapter.note_created(this) -%}
        {%- do update(model) -%}
    {%- endif -%}
    {%- do cdc._drop_steps() -%}
    {%- do cdc._end_load() -%}
{%- endmacro %}
