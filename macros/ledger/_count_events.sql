{#-
    Counters of a run, taken from the steps that it writes anyway. They are kept in the project's graph, the one thing that all
    nodes of a run share, until `cdc.record_run` writes them down.
-#}

{#- What new events did; `late` and `tied` are of them, beside what they did. -#}
{% macro _effects() -%}
    {{ return(["inserted", "updated", "deleted", "unchanged", "late", "tied"]) }}
{%- endmacro %}


{#-
    Counts the new events, and finds the range of their keys, outside which a run changes nothing. Raw rows that gave no event are
    decoded once more, to tell bad ones from those left out.
-#}
{% macro _count_events(t) -%}
    {#- The raw rows of a run are the resolver's to count, where there is one. -#}
    {%- set d = none if t.follows else t.declaration -%}
    {%- set counted = "_op <> 'M'" ~ (" and size(_former_entity_ids) = 0" if t.follows) -%}
    {%- set row = run_query(
        "select count_if(" ~ counted ~ "), count_if(_op = 'T'), count(distinct if(_op = 'T', _event_id, null)), "
        ~ cdc._key_range(t, t.steps.events) ~ " from " ~ t.steps.events.view
    ).rows[0] -%}
    {%- do t.update({"bounds": none if row[1] or t.rebuild or t.follows else cdc._key_bounds(t, row[3])}) -%}
    {%- set good = row[0] | int -%}
    {%- do t.update({"truncates": row[1], "counters": {
        "good": good, "truncates": row[2] | int, "quarantined": 0, "left_out": 0,
    }}) -%}
    {%- if d and t.raw_rows != good -%}
        {%- set bad = run_query(cdc._bad_count(t)).rows[0] -%}
        {%- do t.counters.update({"quarantined": bad[0] | int, "left_out": bad[1] | int}) -%}
    {%- endif -%}
{%- endmacro %}


{#- Counts what the new events did, and records it. Returns how many changes there are of each kind. -#}
{% macro _count_changes(t, kind) -%}
    {%- set sums = [] -%}
    {%- for effect in cdc._effects() -%}
        {%- do sums.append("coalesce(sum(_effects." ~ effect ~ "), 0)") -%}
    {%- endfor -%}
    {%- set kinds = {} -%}
    {%- set counters = {"deleted": t.counters.truncates} -%}
    {%- for row in run_query("select " ~ kind ~ ", count(*), " ~ (sums | join(", ")) ~ " from " ~ t.steps.changes.view
        ~ " group by " ~ kind).rows -%}
        {%- do kinds.update({row[0]: row[1]}) -%}
        {%- for effect in cdc._effects() -%}
            {%- do counters.update({effect: counters.get(effect, 0) + row[loop.index + 1] | int}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set applied = counters.get("inserted", 0) + counters.get("updated", 0) + counters.deleted + counters.get("unchanged", 0) -%}
    {%- do counters.update({
        "read": t.counters.good + t.counters.quarantined,
        "duplicate": t.counters.good - applied,
        "quarantined": t.counters.quarantined,
        "left_out": t.counters.left_out,
        "watermark_before": t.read_from,
        "watermark_after": t.read_to,
    }) -%}
    {%- do cdc._record(t, counters) -%}
    {{ return(kinds) }}
{%- endmacro %}


{#- A first build folds all events in one statement: only what it reads is counted. -#}
{% macro _record_first_build(t, node) -%}
    {%- if t.declaration and not t.follows -%}
        {%- do cdc._record(t, {"read": t.raw_rows, "watermark_after": t.read_to}) -%}
    {%- endif -%}
{%- endmacro %}


{% macro _record(t, counters) -%}
    {%- set table = t.declaration.table if t.declaration else "" -%}
    {%- do graph.setdefault("cdc_runs", []).append({"node": model.unique_id, "table": table, "counters": counters}) -%}
{%- endmacro %}


{% macro _is_new_row(t, arrival) -%}
    {%- set bounds = [] -%}
    {%- if t.read_from is not none -%}{%- do bounds.append(arrival ~ " > " ~ t.read_from) -%}{%- endif -%}
    {%- if t.read_to is not none -%}{%- do bounds.append(arrival ~ " <= " ~ t.read_to) -%}{%- endif -%}
    {{ return(bounds | join(" and ") or "true") }}
{%- endmacro %}


{#- The raw rows of the table that a run reads. -#}
{% macro _from_new_rows(t) -%}
    {%- set d = t.declaration -%}
    {{ return("from " ~ d.relation ~ " where " ~ ("(" ~ d.where ~ ") and " if d.where else "") ~ cdc._is_new_row(t, d.arrival)) }}
{%- endmacro %}


{% macro _bad_count(t) -%}
with {{ cdc._decoded_events(t.declaration, t.declaration.relation) }},

control_counts as (
    select count(*) as left_out
    from decoded_events
    where _cdc_operation = 'M' and {{ cdc._is_new_row(t, "_arrived") }}
),

bad_counts as (
    select count(*) as quarantined
    from identified_events
    where _reason is not null and {{ cdc._is_new_row(t, "_arrived") }}
)

select
    quarantined,
    left_out
from bad_counts
cross join control_counts
{%- endmacro %}
