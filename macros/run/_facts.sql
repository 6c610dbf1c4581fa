{#-
    What a run has to know of a step before it goes on: counted in memory where the adapter holds the rows, by one query
    elsewhere.

    Of the new events: `good`, without the ends of moved keys; `truncates`, rows; `truncate_events`, different ones; `partial`,
    whether one may leave columns unset; `single`, whether no two have the same key; `relabeled`, how many rows are events that were
    of another row of the source before; `bounds`, where their keys are (see `_key_bounds`).
-#}
{% macro _event_facts(spec, events) -%}
    {%- set key = spec.key_columns[0] -%}
    {%- if events.rows is not none -%}
        {%- set is_single = adapter.has_single_events(events, spec.key_columns, spec.types) -%}
        {{ return(dict(adapter.event_facts(events, key, cdc._literal_end(spec.types[key])), single=is_single)) }}
    {%- endif -%}
    {%- set is_good = "_op <> 'M'" ~ (" and size(_former_entity_ids) = 0" if spec.follows) -%}
    {%- set is_relabeled = "size(_former_entity_ids) > 0" if spec.follows else "false" -%}
    {%- set row = run_query(
        "select count_if(" ~ is_good ~ "), count_if(_op = 'T'), count(distinct if(_op = 'T', _event_id, null)), "
        ~ "count_if(" ~ is_relabeled ~ "), " ~ cdc._key_range(spec, events.relation) ~ " from " ~ events.relation
    ).rows[0] -%}
    {{ return({
        "good": row[0] | int, "truncates": row[1] | int, "truncate_events": row[2] | int, "partial": true,
        "single": false, "relabeled": row[3] | int, "bounds": cdc._key_bounds(spec, fromjson(row[4] or "{}")),
    }) }}
{%- endmacro %}


{#- Whether a batch has so many events that Spark ought to divide them: one raw row may carry a whole transaction. -#}
{% macro _is_many(window, facts) -%}
    {{ return(not window.few or facts.good > cdc._few_rows()) }}
{%- endmacro %}


{#-
    Of the changes: `kinds`, how many of each; `effects`, what the new events did.
      kind   the column that says what a change is
-#}
{% macro _change_facts(changes, kind) -%}
    {%- if changes.rows is not none -%}
        {{ return(adapter.change_facts(changes, kind)) }}
    {%- endif -%}
    {%- set sums = [] -%}
    {%- for effect in cdc._effects() -%}
        {%- do sums.append("coalesce(sum(_effects." ~ effect ~ "), 0)") -%}
    {%- endfor -%}
    {%- set kinds = {} -%}
    {%- set effects = {} -%}
    {%- for row in run_query("select " ~ kind ~ ", count(*), " ~ (sums | join(", ")) ~ " from " ~ changes.relation
        ~ " group by " ~ kind).rows -%}
        {%- do kinds.update({row[0]: row[1] | int}) -%}
        {%- for effect in cdc._effects() -%}
            {%- do effects.update({effect: effects.get(effect, 0) + row[loop.index + 1] | int}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return({"kinds": kinds, "effects": effects}) }}
{%- endmacro %}


{#- Whether a step has a row that meets a condition on one of its boolean columns. -#}
{% macro _has_any(step, column, value) -%}
    {%- if step.rows is not none -%}
        {{ return(adapter.has_any(step, column, value)) }}
    {%- endif -%}
    {{ return(cdc._has_rows("select 1 from " ~ step.relation ~ " where " ~ column ~ " = " ~ value ~ " limit 1")) }}
{%- endmacro %}


{#- Whether a query finds a row. -#}
{% macro _has_rows(query) -%}
    {{ return(run_query("select count(*) from (" ~ query ~ ") as found_rows").rows[0][0] > 0) }}
{%- endmacro %}
