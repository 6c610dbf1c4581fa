{#-
    `dbt run-operation cdc_replay --args '{table: customers_history}'`: sets the high-water mark of a table back, which is
    `read_to` of its checkpoint. The next build then reads events that were quarantined when they arrived and are good now, for
    the declaration was corrected; or that arrived with a number which was not above the mark. They take their place in the order;
    events that were applied before stay as they are.
-#}
{% macro cdc_replay(table, since=none, dry_run=false) -%}
    {{ return(adapter.dispatch("cdc_replay", "cdc")(table, since, dry_run)) }}
{%- endmacro %}


{% macro default__cdc_replay(table, since, dry_run) -%}
    {%- set node = cdc._managed_nodes(table)[0] -%}
    {%- set d = cdc._upstream_declaration(node) -%}
    {%- set relation = cdc._relation_of(node) -%}
    {%- if node.resource_type != "snapshot" and (not d or d.history) -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ table ~ " is built from its history, which reads the events. Name the history, "
            ~ cdc._node_above(node).name ~ ".") -%}
    {%- elif d.key_changes -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ table ~ " reads events through the resolver, which cannot be set back. Resolve them again, which changes only"
            ~ " the rows concerned: dbt build --full-refresh --select " ~ (node.depends_on.nodes[0].split(".")[-1])
            ~ ", then dbt build."
        ) -%}
    {%- elif not d.arrival -%}
        {%- do log("cdc: " ~ table ~ " reads all of " ~ d.table ~ " in every run, because it declares no `arrival`: nothing"
            ~ " to set back", info=true) -%}
        {{ return("") }}
    {%- elif since is none and not d.history -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ table ~ " keeps no history, and so does not know which events it never read. Name the first arrival"
            ~ " to read again, `since: <" ~ d.arrival ~ ">`."
        ) -%}
    {%- endif -%}
    {%- set checkpoint = cdc._read_checkpoint(relation) -%}
    {%- if checkpoint.get("read_to") is none -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ table ~ " has no high-water mark. Build it first: dbt build --select " ~ table
        ) -%}
    {%- endif -%}
    {%- if since is none -%}
        {%- set missed = run_query(cdc._missed_events(d, relation, checkpoint.read_to)).rows[0] -%}
        {%- set highest = cdc._highest_place(d) -%}
        {%- set is_beyond = highest is not none and highest < checkpoint.read_to -%}
        {%- set first = highest + 1 if missed[1] is none and is_beyond else missed[1] -%}
        {%- do log("cdc: " ~ table ~ ": " ~ missed[0] ~ " good events were never applied", info=true) -%}
    {%- else -%}
        {%- set first = since | int -%}
    {%- endif -%}
    {%- if first is not none and first <= checkpoint.read_to and not dry_run -%}
        {#- The batches that are read again have numbers that were read. -#}
        {%- set position = dict(
            checkpoint, read_to=first - 1, batch=none, raw_version=none, fingerprint=none, set_back=true
        ) -%}
        {%- do cdc._commit_checkpoint(relation, position, checkpoint) -%}
        {%- do log("cdc: the next build of " ~ table ~ " reads again from " ~ d.arrival ~ " " ~ first, info=true) -%}
    {%- endif -%}
{%- endmacro %}


{% macro _missed_events(d, history, read_to) -%}
    {%- set beside = cdc._tombstones_of(history) -%}
with {{ cdc._decoded_events(dict(d, amended=false), d.relation) }},

known_events as (
    select explode(coalesce(_events._event_id, array(_event_id))) as _event_id
    from {{ history }}
    {%- if load_relation(beside) is not none %}
    union all
    select _event_id
    from {{ beside }}
    {%- endif %}
)

select
    count(distinct identified_events._event_id),
    min(identified_events._arrived)
from identified_events
left anti join known_events on identified_events._event_id = known_events._event_id
where
    identified_events._reason is null
    and identified_events._arrived <= {{ read_to }}
{%- endmacro %}
