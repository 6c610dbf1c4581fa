{#-
    Whether a table that reads a part of a raw table, as those of a topic do, has nothing new in it, although others may have. One
    look at the raw table tells it of all that read it.
-#}
{% macro _is_unaffected(node) -%}
    {%- set reader = cdc._reader(node) -%}
    {%- if not reader or not cdc._has_same_declaration(node) -%}
        {{ return(false) }}
    {%- endif -%}
    {%- if cdc._knows_partition(reader) -%}
        {%- set appended = cdc._appended_since(reader) -%}
        {%- if appended.lowest is none -%}
            {%- if cdc._is_far_behind(reader, appended.version) -%}
                {%- do cdc._commit_checkpoint(reader.target, dict(reader.checkpoint, raw_version=appended.version), reader.checkpoint) -%}
            {%- endif -%}
            {{ return(true) }}
        {%- elif not cdc._shares_partition(reader.declaration) -%}
            {{ return(false) }}
        {%- endif -%}
    {%- endif -%}
    {%- set read_to = reader.checkpoint.read_to -%}
    {%- set probe = cdc._shared_probe(reader.declaration) -%}
    {%- set newest = probe.newest.get(reader.declaration.table) if probe else none -%}
    {#- A table that was created in this run may not have been there when somebody looked. -#}
    {%- set was_there = probe and reader.declaration.table in probe.newest -%}
    {%- if not was_there or read_to < probe.since or (newest is not none and newest > read_to) -%}
        {{ return(false) }}
    {%- elif probe.read_to is not none and probe.read_to < read_to -%}
        {#- The sequence fell, which the table itself has to refuse. -#}
        {{ return(false) }}
    {%- elif cdc._got_rows_behind(reader) -%}
        {#- The table reads what was appended with an arrival that it has read already. -#}
        {{ return(false) }}
    {%- elif probe.raw_rows > cdc._rows_without_checkpoint() or cdc._is_far_behind(reader, probe.raw_version) -%}
        {#- So that the next look goes over neither all of these rows nor these commits again, for a table that seldom has any. -#}
        {%- do cdc._commit_checkpoint(reader.target, dict(
            reader.checkpoint, read_to=probe.read_to, raw_version=probe.raw_version
        ), reader.checkpoint) -%}
    {%- endif -%}
    {{ return(true) }}
{%- endmacro %}


{#- Whether the log tells of rows, since a table read its raw table, that lie before the place that it has read to. -#}
{% macro _got_rows_behind(reader) -%}
    {%- set appended = cdc._appended_since(reader) -%}
    {{ return(appended is not none and appended.is_behind(reader.checkpoint.read_to)) }}
{%- endmacro %}


{#- Whether the log tells what was appended for a table alone: it is a partition of its raw table, which is still the same. -#}
{% macro _knows_partition(reader) -%}
    {%- set d = reader.declaration -%}
    {{ return(cdc._landed_partition(d) and cdc._is_noted_of(reader.checkpoint, cdc._table_id(d.relation))
        and cdc._appended_since(reader) is not none) }}
{%- endmacro %}


{#- Whether several declarations read the same rows of a raw table, as of a topic with several tables. -#}
{% macro _shares_partition(d) -%}
    {%- set alike = [] -%}
    {%- for source in graph.sources.values() if source.relation_name == d.relation -%}
        {%- set other = cdc._read_declaration(source) -%}
        {%- if other and other.where == d.where -%}{%- do alike.append(other.table) -%}{%- endif -%}
    {%- endfor -%}
    {{ return(alike | length > 1) }}
{%- endmacro %}


{#- What the log tells of the rows that came since a table read its raw table, as `_appended`; none where it does not tell. -#}
{% macro _appended_since(reader) -%}
    {%- set since = reader.checkpoint.get("raw_version") -%}
    {%- if since is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set d = reader.declaration -%}
    {%- set read_to = reader.checkpoint.read_to -%}
    {%- set name = [invocation_id, "appended", d.relation, d.arrival, d.where, since, read_to, cdc._last_commit(d.relation)] -%}
    {{ return(adapter.once(name | string, cdc._appended, d, read_to, since)) }}
{%- endmacro %}


{#- Whether so many commits were made to a raw table, since a table noted one, that the log of later ones is long to read. -#}
{% macro _is_far_behind(reader, raw_version) -%}
    {%- set noted = reader.checkpoint.get("raw_version") -%}
    {{ return(none not in [noted, raw_version] and raw_version - noted > 50) }}
{%- endmacro %}


{#- Up to how many raw rows that are not theirs tables are skipped without a new checkpoint. -#}
{% macro _rows_without_checkpoint() -%}
    {{ return(100000) }}
{%- endmacro %}


{#-
    Whether several declarations read the same raw table, and only events with a higher arrival concern this one's tables. The
    batches of a `batch_order` are those of all rows, and a table that is skipped counts none.
-#}
{% macro _is_shared(d) -%}
    {{ return(not d.problems and d.arrival is not none and not d.arrival_overlap and d.on_bad_event != "fail"
        and not d.batch_order
        and graph.sources.values() | selectattr("relation_name", "equalto", d.relation) | list | length > 1) }}
{%- endmacro %}


{#-
    A table that reads the events of a staging view of a shared raw table, and its checkpoint, which says how far. None otherwise,
    as on every adapter that cannot read Delta's log.
-#}
{% macro _reader(node) -%}
    {%- set target = cdc._relation_of(node) -%}
    {%- set above = cdc._node_above(node) -%}
    {%- if not above or above.config.materialized != "view" or cdc._last_commit(target) is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set d = cdc._upstream_declaration(above) -%}
    {%- if not d or not cdc._is_shared(d) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set checkpoint = cdc._read_checkpoint(target) -%}
    {%- if checkpoint.get("read_to") is none or checkpoint.get("split") -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({"target": target, "declaration": d, "checkpoint": checkpoint}) }}
{%- endmacro %}


{#- What `_probe_shared` finds, asked once in a run, as long as nothing is committed to the raw table. -#}
{% macro _shared_probe(d) -%}
    {%- set name = [invocation_id, d.relation, d.arrival, cdc._last_commit(d.relation)] | string -%}
    {{ return(adapter.once(name, cdc._probe_shared, d)) }}
{%- endmacro %}


{#-
    What a raw table has that one of its readers has not read: the newest arrival for each declared table (`newest`) and of all rows
    (`read_to`), and the number of rows, as looked for from `since` on in the version `raw_version`.
-#}
{% macro _probe_shared(d) -%}
    {%- set asked = {} -%}
    {%- set read_to = [] -%}
    {%- for node in cdc._event_readers() if d.relation == cdc._source_relation(node) -%}
        {%- set reader = cdc._reader(node) -%}
        {%- set is_alone = reader and cdc._knows_partition(reader) and not cdc._shares_partition(reader.declaration) -%}
        {%- if reader and reader.declaration.arrival == d.arrival and not is_alone -%}
            {%- do asked.update({reader.declaration.table: "max(" ~ d.arrival ~ ") filter (where "
                ~ cdc._may_be_of_table(reader.declaration) ~ ")"}) -%}
            {%- do read_to.append(reader.checkpoint.read_to) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set since = read_to | min -%}
    {%- set raw_version = cdc._raw_version(d) -%}
    {%- set rows = adapter.rows_if_it_can("select max(" ~ d.arrival ~ "), count(*), " ~ (asked.values() | join(", "))
        ~ " from " ~ d.relation ~ " where " ~ d.arrival ~ " > " ~ since) -%}
    {#- Where one declaration is wrong, each table looks for itself, and that one fails. -#}
    {%- if not rows -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set highest = cdc._place(rows[0][0], d) if rows[0][1] else cdc._highest_place(d) -%}
    {%- set newest = {} -%}
    {%- for table in asked -%}
        {%- do newest.update({table: rows[0][loop.index + 1]}) -%}
    {%- endfor -%}
    {{ return({
        "since": since, "newest": newest, "read_to": highest, "raw_rows": rows[0][1], "raw_version": raw_version,
    }) }}
{%- endmacro %}


{#- The nodes that read events and note how far: histories, final tables without one, and resolvers. -#}
{% macro _event_readers() -%}
    {%- set readers = [] -%}
    {%- for node in graph.nodes.values() if cdc._kind_of(node) in ["history", "final", "resolver"] -%}
        {%- do readers.append(node) -%}
    {%- endfor -%}
    {{ return(readers) }}
{%- endmacro %}


{#- The raw table that a reader's staging view reads. -#}
{% macro _source_relation(node) -%}
    {%- set above = cdc._node_above(node) -%}
    {%- set source = graph.sources.get(above.depends_on.nodes[0]) if above and above.depends_on.nodes else none -%}
    {{ return(source.relation_name if source else none) }}
{%- endmacro %}


{#-
    A condition that no raw row of a table fails, without decoding it: the declared one, and that the payload holds the table's
    name. An event that names no table is quarantined by whoever decodes it, and does not call for that.
-#}
{% macro _may_be_of_table(d) -%}
    {%- set conditions = [d.where or "true"] -%}
    {%- set names = [] -%}
    {%- for name in d.source_table -%}
        {%- do names.append(name.split(".")[-1]) -%}
    {%- endfor -%}
    {#- JSON may write other characters in more than one way. -#}
    {%- if d.payload and names and modules.re.fullmatch("[A-Za-z0-9_ ]+", names | join(" ")) -%}
        {%- set found = [] -%}
        {%- for name in names -%}
            {%- do found.append("contains(" ~ cdc._payload(d) ~ ", " ~ cdc._literal(name) ~ ")") -%}
        {%- endfor -%}
        {%- do conditions.append(found | join(" or ")) -%}
    {%- endif -%}
    {{ return("(" ~ (conditions | join(") and (")) ~ ")") }}
{%- endmacro %}
