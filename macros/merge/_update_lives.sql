{#- Brings a final table without a history up to date: one batch, or one for each part of a large load. Returns the outcome. -#}
{% macro _update_lives(node) -%}
    {{ return(cdc._all_parts(cdc._update_lives_part, node)) }}
{%- endmacro %}


{#-
    One batch of a final table without a history: the new events, the rows of their keys, and one commit. Returns the outcome;
    none where there is more to read.
-#}
{% macro _update_lives_part(node) -%}
    {%- if cdc._has_same_input(node) or cdc._is_unaffected(node) -%}
        {{ return("nothing new") }}
    {%- endif -%}
    {%- do cdc._refuse_missing_columns(node, cdc._relation_of(node)) -%}
    {%- set spec = cdc._lives_spec(node) -%}
    {%- do cdc._keep_format_properties(node, spec.relation) -%}
    {%- set checkpoint = cdc._checked_checkpoint(spec.relation, node) -%}
    {%- set window = cdc._read_window(spec, checkpoint, node) -%}
    {%- if window.nothing_new -%}
        {%- do cdc._note_nothing_new(spec.relation, window, checkpoint) -%}
        {{ return("nothing new") }}
    {%- endif -%}
    {%- do cdc._begin_load(spec, window) -%}
    {%- set new_events = cdc._new_events(spec, window.read_from, window.read_to, window.amended) -%}
    {%- set events = cdc._step(spec, "events", new_events, window.few) -%}
    {%- set found = cdc._event_facts(spec, events) -%}
    {%- set facts = dict(found, rejected=cdc._rejected_events(spec, window, found)) -%}
    {%- set has_truncates = facts.truncates > 0 -%}
    {#- A truncate changes as many rows as there are. -#}
    {%- set window = dict(window, few=window.few and not has_truncates) -%}
    {%- set bounds = none if has_truncates or spec.by_position else facts.bounds -%}
    {%- set known_sql = cdc._known_lives(spec, events, has_truncates, bounds, facts.single) -%}
    {%- set known = cdc._step(spec, "known", known_sql, window.few, scans_table=true) -%}
    {%- set is_late = cdc._has_any(known, "_is_in_order", false) -%}
    {%- set truncated = has_truncates or cdc._has_any(known, "_is_truncate", true) -%}
    {%- if facts.single and not facts.partial and not truncated and not is_late and not spec.by_position -%}
        {%- set changed_sql = cdc._next_lives(spec, events, known) -%}
    {%- else -%}
        {%- set changed_sql = cdc._changed_lives(dict(
            spec, partial=spec.partial and (facts.partial or is_late), truncated=truncated, splits=cdc._is_many(window, facts)
        ), events, known) -%}
    {%- endif -%}
    {%- set changes = cdc._step(spec, "changes", changed_sql, window.few) -%}
    {%- set run = cdc._run_of_batch(spec, window, facts, cdc._change_facts(changes, "_current_op")) -%}
    {%- set names = cdc._table_types(spec.relation).keys() | list -%}
    {%- set outcome = cdc._write_current(spec, node, changes, {
        "version": checkpoint.at,
        "names": names,
        "position": dict(window.position, run=run),
        "checkpoint": checkpoint,
        "few": window.few,
        "selected": cdc._final_columns(node, names),
    }) -%}
    {%- do cdc._drop_steps() -%}
    {{ return(none if window.goes_on else outcome) }}
{%- endmacro %}
