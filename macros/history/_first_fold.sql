{#-
    What the embedded Spark asks of the events of a large first load before it plans the fold. Most keys of a first load have one event, a
    full image: the only version that it makes needs no window, no list and no shuffle. So the keys that need the fold are looked
    for first, which reads little more than the key, and the others are written as they come.
-#}

{#-
    The spec of a first build, with what its events are known to be:
      truncated   false where there is no truncate
      folded      the keys whose events have to be folded: their `relation`, and their `count`. None: all.
      window   what is read; of few rows, or nobody knows how many, nothing is asked
-#}
{% macro _with_first_facts(spec, window) -%}
    {{ return(adapter.dispatch("with_first_facts", "cdc")(spec, window)) }}
{%- endmacro %}


{% macro default__with_first_facts(spec, window) -%}
    {{ return(spec) }}
{%- endmacro %}


{% macro sparkcdc__with_first_facts(spec, window) -%}
    {%- if window.raw_rows is none or window.few is not false -%}
        {{ return(spec) }}
    {%- endif -%}
    {%- do adapter.expect_reads(2, false) -%}
    {%- set found = cdc._step(spec, "folded_keys", cdc._folded_keys(spec, window.read_to)) -%}
    {%- set row = run_query("select count(*), coalesce(max(_is_truncate), false) from " ~ found.relation).rows[0] -%}
    {%- if row[1] -%}
        {#- A truncate ends rows of any key. It is looked for once more. -#}
        {%- do adapter.expect_reads(3, true) -%}
        {{ return(spec) }}
    {%- endif -%}
    {%- set count = row[0] | int -%}
    {%- if count > cdc._most_folded_keys() -%}
        {%- do adapter.expect_reads(2, true) -%}
        {{ return(dict(spec, truncated=false)) }}
    {%- endif -%}
    {%- do adapter.expect_reads(3 if count else 2, count > 0) -%}
    {{ return(dict(spec, truncated=false, folded={"relation": found.relation, "count": count})) }}
{%- endmacro %}


{#- How many keys every task holds in memory. Where more have to be folded, it is most of the load. -#}
{% macro _most_folded_keys() -%}
    {{ return(500000) }}
{%- endmacro %}


{#- The keys with anything but one full image. Truncates have no key. -#}
{% macro _folded_keys(spec, until) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
select
    {{ keys }},
    max(_op = 'T') as _is_truncate
from (
    {{ cdc._new_events(dict(spec, reads_all=true), until=until) | indent(4) }}
) as new_events
group by {{ keys }}
having
    count(*) > 1
    or not coalesce(max({{ cdc._is_full_image() }}), false)
{%- endmacro %}


{#- Whether an event carries all columns of its row. -#}
{% macro _is_full_image() -%}
    {{ return("_op in ('I', 'U') and coalesce(size(_unset) = 0, false)") }}
{%- endmacro %}


{#- The CTEs `sole_events` and, where there are any, `events`, of `new_events`. -#}
{% macro _split_events(spec) -%}
    {%- set same = cdc._same(spec.key_columns, "new_events", "folded_keys") -%}
{#- An event that arrived since the keys were looked for may be of any kind. -#}
sole_events as (
    select {{ "/*+ broadcast(folded_keys) */ " if spec.folded.count }}new_events.*
    from new_events
    {%- if spec.folded.count %}
    left anti join {{ spec.folded.relation }} as folded_keys on {{ same }}
    {%- endif %}
    where {{ cdc._is_full_image() }}
)
{%- if spec.folded.count %},

events as (
    select /*+ broadcast(folded_keys) */ new_events.*
    from new_events
    left semi join {{ spec.folded.relation }} as folded_keys on {{ same }}
    where _op <> 'T'
)
{%- endif %}
{%- endmacro %}


{#-
    Stops a large first build whose raw table got events while they were read, behind what it goes up to, where one of them is the second of
    a key that was taken for one with a single event. The table is dropped: it has that key twice.
      rows   the condition on the rows of which each key has one
-#}
{% macro _refuse_torn_load(relation, node, rows="true") -%}
    {%- set checkpoint = cdc._read_checkpoint(relation) -%}
    {%- set counted = ((checkpoint.get("run") or {}).get("counters") or {}).get("read") -%}
    {%- if (counted is not none and counted <= cdc._few_rows()) or not cdc._may_be_torn(node, checkpoint) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set keys = cdc._column_list(cdc._as_list(node.config.unique_key)) -%}
    {%- set twice = "select 1 from " ~ relation ~ " where " ~ rows ~ " group by " ~ keys ~ " having count(*) > 1 limit 1" -%}
    {%- if run_query(twice).rows | length -%}
        {%- set d = cdc._upstream_declaration(node) -%}
        {%- do adapter.drop_relation(relation.incorporate(type="table")) -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: while " ~ relation ~ " was loaded, " ~ (d.relation if d else "its raw table") ~ " got more events of keys that had been"
            ~ " read already. The table is dropped again. Run the build again."
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#- Whether the raw table may have got rows, since a build began, that it has read nevertheless. -#}
{% macro _may_be_torn(node, checkpoint) -%}
    {%- set d = cdc._upstream_declaration(node) -%}
    {%- set raw_version = (checkpoint.get("part") or checkpoint).get("raw_version") -%}
    {%- if d is none or none in [raw_version, checkpoint.get("read_to")] -%}
        {{ return(true) }}
    {%- endif -%}
    {%- set appended = cdc._appended(d, checkpoint.read_to, raw_version) -%}
    {{ return(appended is none or (appended[3] is not none and appended[3] <= checkpoint.read_to)) }}
{%- endmacro %}
