{#-
    `dbt run-operation cdc_allow_return --args '{table: app.customers, keys: [7], since: 2026-12-01, dry_run: false}'`: lets
    erased keys come back as new rows. Their events count from `since` on, an event time or, where the source has none, a
    position. What is older stays erased, however late it arrives.
-#}
{% macro cdc_allow_return(table=none, keys=none, since=none, dry_run=true) -%}
    {{ return(adapter.dispatch("cdc_allow_return", "cdc")(table, keys, since, dry_run)) }}
{%- endmacro %}


{% macro default__cdc_allow_return(table, keys, since, dry_run) -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: cdc_allow_return is for keys that cdc_erase has erased, which needs a target of `type: sparkcdc`. Nothing was"
        ~ " written. Name such a target with --target."
    ) -%}
{%- endmacro %}


{% macro sparkcdc__cdc_allow_return(table, keys, since, dry_run) -%}
    {%- set subject = cdc._erasure_subject(table) -%}
    {%- set d = subject.declaration -%}
    {%- set by = cdc._returns_by(d) -%}
    {%- set problems = cdc._key_list_problems(d, keys) -%}
    {%- if since is none -%}
        {%- do problems.append("`since` is missing: the " ~ ("event time" if by == "_ts" else "position")
            ~ " from which on events count.") -%}
    {%- elif by is none -%}
        {%- do problems.append(d.table
            ~ " has no event time, and its position has several parts, so the new row's events cannot be distinguished"
            ~ " from those of the erased one. Declare `event_time`.") -%}
    {%- else -%}
        {%- set type = "timestamp" if by == "_ts" else cdc._position_type(subject) -%}
        {%- if not run_query("select try_cast(" ~ cdc._literal(since) ~ " as " ~ type ~ ") is not null").rows[0][0] -%}
            {%- do problems.append("`since: " ~ since ~ "` is " ~ (
                "not a time. Write a timestamp, such as 2026-01-31 08:00:00." if by == "_ts"
                else "not a position: those of " ~ d.table ~ " are of type " ~ type ~ ".")) -%}
        {%- endif -%}
    {%- endif -%}
    {%- do cdc._refuse_operation("cdc_allow_return", table, problems) -%}
    {%- set list = cdc._erasures_of(d) -%}
    {%- set hashes = "select " ~ cdc._row_key_hash(d) ~ " as key_hash from (" ~ cdc._erased_keys(subject, none, keys, 0, false)
        ~ ") as returning" -%}
    {#- A key that an erased row has left is free without permission. -#}
    {%- set is_listed = cdc._is_listed_table(d) ~ " and is_done" ~ (" and upper_bound is null" if d.key_changes else "") -%}
    {%- set counted = run_query("select count(distinct named_keys.key_hash), count(distinct listed_keys.key_hash) from (" ~ hashes
        ~ ") as named_keys left join (select key_hash from " ~ list ~ " where " ~ is_listed
        ~ ") as listed_keys on named_keys.key_hash = listed_keys.key_hash").rows[0] if list else [keys | length, 0] -%}
    {%- set listed = counted[1] -%}
    {%- if listed != counted[0] -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ counted[0] ~ " keys are named, and " ~ listed
            ~ " of them are erased. Nothing was written. Name erased keys of " ~ d.table
            ~ " only; an erasure that was interrupted is finished first, by cdc_erase.") -%}
    {%- endif -%}
    {%- if not dry_run -%}
        {%- set source = "(select distinct key_hash, " ~ cdc._literal(since) ~ " as counts_from from (" ~ hashes
            ~ ") as returning_hashes)" -%}
        {%- do run_query(cdc._merge(list, source,
            cdc._key_predicates(["key_hash"]) + ["(" ~ is_listed ~ ")"],
            [{"when": "matched", "then": "update", "columns": ["counts_from"]}])) -%}
    {%- endif -%}
    {%- do log("cdc: events of " ~ listed ~ (" key " if listed == 1 else " keys ") ~ "of " ~ d.table
        ~ (" would count again from " if dry_run else " count again from ") ~ since ~ (" on; run with dry_run: false" if dry_run
        else " on. Build the staging model; " ~ ("a full refresh of the resolver's table" if d.key_changes else "cdc_replay")
        ~ " reads those that arrived before"), info=true) -%}
{%- endmacro %}


{#- The type of the positions that the rows of a subject have, each of which is one value. -#}
{% macro _position_type(subject) -%}
    {%- set types = cdc._column_types("select * from " ~ cdc._named_rows(subject)) -%}
    {{ return(types.get("_seq") or types.get("_cdc_seq") or "string") }}
{%- endmacro %}
