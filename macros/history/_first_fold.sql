{#-
    What the embedded Spark asks of the events of a large first load before it plans the fold. Most keys of a first load have one
    event, a full image: the only version that it makes needs no window, no list and no shuffle. So the keys that need the fold
    are looked for first, which reads little more than the key, and the others are written as they come.
-#}

{#-
    The spec of a first build, with what its events are known to be:
      truncated   false where there is no truncate
      folded      the keys whose events have to be folded: their `relation`, and their `count`. None: all.
      window   what is read, see `_first_window`
-#}
{% macro _with_first_facts(spec, window) -%}
    {{ return(adapter.dispatch("with_first_facts", "cdc")(spec, window)) }}
{%- endmacro %}


{% macro default__with_first_facts(spec, window) -%}
    {{ return(spec) }}
{%- endmacro %}


{% macro sparkcdc__with_first_facts(spec, window) -%}
    {%- if not cdc._pays_to_look(spec, window) -%}
        {{ return(spec) }}
    {%- endif -%}
    {%- do adapter.expect_reads(2, false) -%}
    {%- do cdc._note_split(spec, window) -%}
    {%- set found = cdc._step(spec, "folded_keys", cdc._folded_keys(spec, window.read_to)) -%}
    {%- set row = run_query("select count(*), coalesce(max(_is_truncate), false) from " ~ found.relation).rows[0] -%}
    {%- set count = row[0] | int -%}
    {%- if row[1] or count > cdc._most_folded_keys() -%}
        {%- do cdc._drop_steps() -%}
        {#- A truncate ends rows of any key. It is looked for once more. -#}
        {%- do adapter.expect_reads(3 if row[1] else 2, true) -%}
        {{ return(dict(spec, truncated=spec.truncated and row[1])) }}
    {%- endif -%}
    {%- do adapter.expect_reads(3 if count else 2, count > 0) -%}
    {{ return(dict(spec, truncated=false, folded={"relation": found.relation, "count": count})) }}
{%- endmacro %}


{#-
    Whether the keys to be folded are looked for: in a large load whose end is known (`arrival`), and of which the log can tell
    afterwards whether it got rows meanwhile. With `ignore_null_updates` most events are partial.
-#}
{% macro _pays_to_look(spec, window) -%}
    {%- set d = none if spec.follows else spec.declaration -%}
    {%- if not d or window.raw_rows is none or window.few or window.read_to is none -%}
        {{ return(false) }}
    {%- endif -%}
    {{ return(
        cdc._is_plain_name(d.arrival) and not d.arrival_overlap and not d.ignore_null_updates and cdc._amendments_of(d) is none
        and (window.position.part or window.position).raw_version is not none
    ) }}
{%- endmacro %}


{#- Notes in the checkpoint what a load saw when it looked for keys. -#}
{% macro _note_split(spec, window) -%}
    {%- set split = {
        "raw_version": (window.position.part or window.position).raw_version, "others": cdc._other_commits(spec.declaration),
        "read_to": window.read_to,
    } -%}
    {%- do cdc._set_checkpoint(spec.relation, dict(window.noted, split=split), cdc._creation()) -%}
{%- endmacro %}


{#- The newest commits of what is read beside the raw table. -#}
{% macro _other_commits(d) -%}
    {{ return(cdc._bootstrap_commits(d) + cdc._amendment_commits(d)) }}
{%- endmacro %}


{#- How many keys every task holds in memory. Where more have to be folded, it is most of the load. -#}
{% macro _most_folded_keys() -%}
    {{ return(500000) }}
{%- endmacro %}


{#-
    The keys with anything but one full image. A truncate may carry a key, and comes first. Sorting the keys is cheaper than a
    hash table of all of them, since a load is often in their order already.
-#}
{% macro _folded_keys(spec, until) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
select
    {{ keys }},
    _is_truncate
from (
    select
        {{ keys }},
        _op = 'T' as _is_truncate,
        coalesce({{ cdc._is_full_image() }}, false) as __cdc_is_full_image,
        row_number() over (partition by {{ keys }} order by _op = 'T' desc) as __cdc_place,
        lead(true) over (partition by {{ keys }} order by _op = 'T' desc) as __cdc_has_next
    from (
        {{ cdc._new_events(dict(spec, reads_all=true), until=until) | indent(8) }}
    ) as new_events
) as placed_events
where __cdc_place = 1 and (not __cdc_is_full_image or __cdc_has_next)
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
    After a load that looked for keys first: where its raw table may have got rows since, behind what the load goes up to, the
    table is created once more, in one statement that reads one version of it. One of these rows can be the second of a key that
    was taken for one with a single event.
-#}
{% macro _check_split(relation, node) -%}
    {%- set checkpoint = cdc._read_checkpoint(relation) -%}
    {%- set split = checkpoint.get("split") -%}
    {%- if not split -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set d = cdc._upstream_declaration(node) -%}
    {#- The checkpoint may have been set back since. -#}
    {%- set read_to = split.get("read_to", checkpoint.read_to) -%}
    {%- set appended = adapter.appended(d.relation, split.raw_version, d.arrival, read_to) -%}
    {%- set is_whole = appended and not appended.is_behind(read_to) -%}
    {%- if is_whole and cdc._other_commits(d) == split.others -%}
        {%- do cdc._commit_position(relation, cdc._position_of(checkpoint, ["split"]), checkpoint.at) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- do log(
        "cdc: while " ~ relation ~ " was loaded, " ~ d.relation ~ " may have got rows with a lower `" ~ d.arrival ~ "` than was"
        ~ " already read. The table is loaded once more.", info=true
    ) -%}
    {%- set window = cdc._first_window(
        cdc._declared_spec(node, node.compiled_code, relation) if node.resource_type == "snapshot" else cdc._first_lives_spec(node), node
    ) -%}
    {%- if node.resource_type == "snapshot" -%}
        {%- set query = cdc._first_versions(cdc._declared_spec(node, node.compiled_code, relation), window.read_to) -%}
    {%- else -%}
        {%- set above = graph.nodes[node.depends_on.nodes[0]].relation_name -%}
        {%- set query = cdc._first_lives(cdc._lives_spec_of_declaration(node, above), window.read_to) -%}
    {%- endif -%}
    {%- if config.get("file_format") == "iceberg" -%}
        {%- set query = adapter.planned_apart(query) -%}
    {%- endif -%}
    {%- call statement("load_once_more") -%}
        {{ spark__create_table_as(false, relation, query) }}
    {%- endcall -%}
    {%- do persist_docs(relation, node) -%}
{%- endmacro %}


{#-
    The newest checkpoint of a table. A load that was killed before it checked its split is checked first, for a key may have two
    rows.
-#}
{% macro _checked_checkpoint(relation, node) -%}
    {%- set checkpoint = cdc._read_checkpoint(relation) -%}
    {%- if not checkpoint.get("split") -%}
        {{ return(checkpoint) }}
    {%- endif -%}
    {%- do cdc._check_split(relation, node) -%}
    {{ return(cdc._read_checkpoint(relation)) }}
{%- endmacro %}
