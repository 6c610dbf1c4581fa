{#-
    Counters of a run. They go into the checkpoint of the commit that the run makes, from where `cdc.record_run` takes them: no
    run can be counted whose rows are not there.
-#}

{#- What new events did; `late` and `tied` are of them, beside what they did. -#}
{% macro _effects() -%}
    {{ return(["inserted", "updated", "deleted", "unchanged", "late", "tied"]) }}
{%- endmacro %}


{#-
    What a batch read and did, for its checkpoint.
      facts   those of the new events, with `rejected`, what `_rejected_events` counted
-#}
{% macro _run_of_batch(spec, window, facts, changed) -%}
    {%- set done = dict(changed.effects, deleted=changed.effects.get("deleted", 0) + facts.truncate_events) -%}
    {%- set applied = done.get("inserted", 0) + done.get("updated", 0) + done.deleted + done.get("unchanged", 0) -%}
    {%- set counters = dict(
        done,
        read=facts.good + facts.rejected.quarantined + facts.rejected.erased,
        duplicate=facts.good - applied,
        quarantined=facts.rejected.quarantined,
        left_out=facts.rejected.left_out,
        erased=facts.rejected.erased,
        watermark_before=window.read_from,
        watermark_after=window.read_to,
    ) -%}
    {{ return(cdc._run_record(spec, cdc._with_earlier(counters, window.earlier) if window.earlier else counters)) }}
{%- endmacro %}


{#- The counters of a run that reads in parts, of all parts so far. What a first build does not count, none of them does. -#}
{% macro _with_earlier(counters, earlier) -%}
    {%- set sums = {} -%}
    {%- for name, value in counters.items() if "watermark" not in name and name in earlier -%}
        {%- do sums.update({name: value + earlier[name]}) -%}
    {%- endfor -%}
    {{ return(dict(sums, watermark_before=earlier.get("watermark_before"), watermark_after=counters.watermark_after)) }}
{%- endmacro %}


{% macro _run_record(spec, counters) -%}
    {{ return({"id": invocation_id, "table": spec.declaration.table if spec.declaration else "", "counters": counters}) }}
{%- endmacro %}


{#-
    How many raw rows of a batch are `quarantined`, how many are `left_out`, as no change of a row, and how many belong to an
    `erased` key. Raw rows that gave no event are decoded once more to tell these apart.
-#}
{% macro _rejected_events(spec, window, facts) -%}
    {#- The raw rows of a run are the resolver's to count, where there is one. -#}
    {%- set d = spec.declaration -%}
    {%- if spec.follows or not d or (window.raw_rows == facts.good and not d.traits.several) -%}
        {{ return({"quarantined": 0, "left_out": 0, "erased": 0}) }}
    {%- endif -%}
    {{ return(run_query(cdc._bad_count(d, window)).rows[0].dict()) }}
{%- endmacro %}


{% macro _bad_count(d, window) -%}
    {%- set erasures = cdc._erasures_of(d) -%}
with {{ cdc._decoded_events(d, d.relation) }},

control_counts as (
    select count(*) as left_out
    from ({{ cdc._left_out_events(d) }}) as left_out_events
    where {{ cdc._is_new_row("_arrived", window.read_from, window.read_to, window.amended) }}
),

bad_counts as (
    select count(*) as quarantined
    from identified_events
    where _reason is not null and {{ cdc._is_new_row("_arrived", window.read_from, window.read_to, window.amended) }}
)
{%- if erasures %},

erased_counts as (
    select count(*) as erased
    from judged_events
    where __cdc_is_erased and {{ cdc._is_new_row("_arrived", window.read_from, window.read_to, window.amended) }}
)
{%- endif %}

select
    quarantined,
    left_out,
    {{ "erased" if erasures else "0 as erased" }}
from bad_counts
cross join control_counts
{%- if erasures %}
cross join erased_counts
{%- endif %}
{%- endmacro %}


{#- Raw rows that no table shows an event of: what is no change of a row, and what a snapshot covers. -#}
{% macro _left_out_events(d) -%}
select _arrived from decoded_events where _cdc_operation = 'M'
{%- if cdc._bootstrap_of(d, d.relation) %}
union all
select _arrived from placed_events where __cdc_is_covered
{%- endif %}
{%- endmacro %}
