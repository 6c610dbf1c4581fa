{#-
    What a run reads: from where to where in the ingestion sequence (`read_from`, `read_to`), which amendments beside that
    (`amended`), how many raw rows that is (`raw_rows`; none where nobody knows), whether these are few, whether there is nothing
    new, and the checkpoint to write (`position`), which keeps the input fingerprint of before the events were read. Of many rows
    only the first part is read (`goes_on`; `rows_left` is how many there are with it), so that what is committed stays committed
    if the load dies: see `_first_part`. `earlier` has the counters of the parts that this run has read. What an `arrival_overlap`
    covers is read again where a row has come into it since. Everything is read again where the checkpoint speaks of another raw
    table or another `arrival`: events that are known change nothing. Refuses bad events, and batches out of order, where that is
    declared.
-#}
{% macro _read_window(spec, checkpoint, node, is_first=false) -%}
    {%- set d = none if spec.follows else spec.declaration -%}
    {%- set position = cdc._input_position(node, d) -%}
    {%- if d -%}
        {%- do cdc._refuse_other_bootstrap(spec.relation, spec.node, d, {} if spec.rebuild else checkpoint) -%}
    {%- endif -%}
    {%- if d and d.arrival -%}
        {%- do cdc._refuse_other_load(spec, d, checkpoint) -%}
        {%- set checkpoint = cdc._own_checkpoint(spec, d, checkpoint, position.raw_id) -%}
    {%- endif -%}
    {%- set found = cdc._new_arrivals(spec, d, checkpoint, position.get("raw_id")) -%}
    {%- set amendments = cdc._new_amendments(spec, d, checkpoint, found.read_from is none) -%}
    {%- set nothing_new = found.nothing_new and not amendments.range -%}
    {%- set may_read_part = found.raw_rows is not none and not nothing_new and not found.is_behind and not amendments.range
        and (is_first or found.read_from is not none) -%}
    {%- set part = cdc._first_part(spec, d, found.read_from, found.read_to, found.raw_rows) if may_read_part else none -%}
    {%- set raw_rows = found.raw_rows + amendments.rows if found.raw_rows is not none else none -%}
    {%- set raw_rows = part.raw_rows if part else raw_rows -%}
    {%- set number = raw_rows if raw_rows is not none else found.get("events") -%}
    {%- set last_part = checkpoint.get("part") -%}
    {%- set earlier = checkpoint.get("run") if last_part else none -%}
    {%- set window = {
        "read_from": found.read_from,
        "read_to": part.read_to if part else found.read_to,
        "amended": amendments.range,
        "raw_rows": raw_rows,
        "goes_on": part is not none,
        "rows_left": found.raw_rows,
        "earlier": earlier.counters if earlier and earlier.id == invocation_id else none,
        "few": number is not none and number <= cdc._few_rows(),
        "nothing_new": nothing_new,
    } -%}
    {%- if spec.declaration and spec.declaration.on_bad_event == "fail" and not (nothing_new and spec.follows) -%}
        {#- All of a load is looked at before the first part of it is written. Rows without an arrival are never anything new. -#}
        {%- do cdc._refuse_bad_events(spec, window.read_from, window.read_to if last_part else none) -%}
    {%- endif -%}
    {%- set load = local_md5(d | string) if is_first else (last_part or {}).get("load") -%}
    {%- do position.update(amendments.position) -%}
    {%- do position.update(cdc._reached_position(spec, d, checkpoint, window, {"raw_version": found.raw_version, "load": load})) -%}
    {{ return(dict(window, position=position)) }}
{%- endmacro %}


{#- What a checkpoint says of a node's events before they are read: their fingerprints, their snapshot and their raw table. -#}
{% macro _input_position(node, d) -%}
    {%- set position = {"fingerprint": cdc._events_fingerprint(node), "declared": cdc._declared_fingerprint(node)} -%}
    {%- if d -%}{%- do position.update(cdc._bootstrap_position(d)) -%}{%- endif -%}
    {%- if d and d.arrival -%}
        {%- do position.update({"arrival": d.arrival, "raw_id": cdc._table_id(d.relation)}) -%}
    {%- endif -%}
    {{ return(position) }}
{%- endmacro %}


{#-
    What `_new_data` finds since a checkpoint, whether that is nothing new, and whether some of it lies before the place that was
    read to (`is_behind`).
-#}
{% macro _new_arrivals(spec, d, checkpoint, raw_id) -%}
    {%- set overlap = d.arrival_overlap if d else 0 -%}
    {%- set last = checkpoint.get("read_to") if (d is none or d.arrival) and not spec.rebuild else none -%}
    {%- set read_from = last - overlap if last is not none else none -%}
    {%- set last_part = checkpoint.get("part") -%}
    {%- set noted = last_part.raw_version if last_part else checkpoint.get("raw_version") -%}
    {%- set raw_version = noted if cdc._is_noted_of(checkpoint, raw_id) else none -%}
    {%- set found = cdc._new_data(spec, read_from, raw_version, last_part) -%}
    {%- set is_behind = found.read_from != read_from -%}
    {%- if d and last is not none and not is_behind and (found.read_to is none or found.read_to < last) -%}
        {%- do cdc._refuse_lost_place(spec, d, last) -%}
    {%- endif -%}
    {%- set read_to = found.read_to if found.read_to is not none else last -%}
    {%- set nothing_new = last is not none and read_to <= last and not is_behind
        and (overlap == 0 or found.raw_rows == checkpoint.get("overlapping")) -%}
    {{ return(dict(found, read_to=read_to, is_behind=is_behind, nothing_new=nothing_new)) }}
{%- endmacro %}


{#-
    How far a run reads, for its checkpoint, and what the next run compares with that. Refuses batches out of order.
      raw   the version of the raw table, and the mark of the load that a part belongs to
-#}
{% macro _reached_position(spec, d, checkpoint, window, raw) -%}
    {%- set position = {} -%}
    {%- if window.goes_on -%}
        {#- Input fingerprint and raw version say that all was read. -#}
        {%- do position.update({"read_to": window.read_to, "fingerprint": none, "part": raw}) -%}
    {%- elif window.read_to is not none -%}
        {%- do position.update({"read_to": window.read_to, "raw_version": raw.raw_version}) -%}
    {%- endif -%}
    {%- if d and d.arrival_overlap and window.read_to is not none and not window.nothing_new -%}
        {#- How many rows the next run sees again: where it sees more, some came late. -#}
        {%- set seen_again = cdc._from_new_rows(d, window.read_to - d.arrival_overlap, window.read_to) -%}
        {%- do position.update({"overlapping": run_query("select count(*) " ~ seen_again).rows[0][0]}) -%}
    {%- endif -%}
    {%- if d and d.batch_order -%}
        {%- set last = none if spec.rebuild else checkpoint.get("batch") -%}
        {%- do position.update({"batch": last if window.nothing_new
            else cdc._refuse_batches(d, window.read_from, window.read_to, last, spec.node.name)}) -%}
    {%- endif -%}
    {{ return(position) }}
{%- endmacro %}


{#-
    What a first build reads, as `_read_window` says it, noted in the checkpoint of the commit that dbt makes (`noted`). A build
    of a part of the events, as `--empty` and `--sample` ask for, counts as one of few rows. It leaves no checkpoint: the next run
    reads everything.
-#}
{% macro _first_window(spec, node) -%}
    {%- if cdc._reads_a_part() -%}
        {{ return({"read_to": none, "raw_rows": none, "few": true, "goes_on": false}) }}
    {%- endif -%}
    {%- set goes_on = node.config.materialized in ["incremental", "snapshot"] and not should_full_refresh() -%}
    {#- Another build may have created it since dbt looked. -#}
    {%- set is_first = goes_on and cdc._rows_at_once() and load_relation(spec.relation) is none
        and not cdc._is_there(spec.relation) -%}
    {%- set window = cdc._read_window(spec, {}, node, is_first) -%}
    {%- do cdc._begin_load(spec, window) -%}
    {%- set run = {"run": cdc._run_record(spec, {"read": window.raw_rows, "watermark_after": window.read_to})}
        if spec.declaration and not spec.follows else {} -%}
    {%- set noted = dict(window.position, **run) -%}
    {%- do cdc._set_checkpoint(spec.relation, noted, cdc._creation()) -%}
    {{ return(dict(window, noted=noted)) }}
{%- endmacro %}


{#-
    Whether this invocation reads a part of what there is, as `--empty` and `--sample` say. dbt's `flags` do not have the second
    one.
-#}
{% macro _reads_a_part() -%}
    {{ return(flags.EMPTY or invocation_args_dict.get("sample") is not none) }}
{%- endmacro %}


{#-
    The checkpoint, as far as it says something of the raw table as it is now: one that was recreated counts from the start, and
    numbers of two expressions do not compare. Without a `read_to` everything is read.
-#}
{% macro _own_checkpoint(spec, d, checkpoint, raw_id) -%}
    {%- if checkpoint.get("read_to") is none or spec.rebuild -%}
        {{ return(checkpoint) }}
    {%- endif -%}
    {%- set changed = [] -%}
    {%- if checkpoint.get("arrival", d.arrival) != d.arrival -%}
        {%- do changed.append("`arrival` was `" ~ checkpoint.arrival ~ "` and is `" ~ d.arrival ~ "`") -%}
    {%- endif -%}
    {%- if none not in [raw_id, checkpoint.get("raw_id")] and raw_id != checkpoint.raw_id -%}
        {%- do changed.append(d.relation ~ " was recreated") -%}
    {%- endif -%}
    {%- if not changed -%}
        {{ return(checkpoint) }}
    {%- endif -%}
    {%- do log("cdc: " ~ spec.relation ~ " reads all events of " ~ d.table ~ " again: " ~ (changed | join(", ")), info=true) -%}
    {{ return({}) }}
{%- endmacro %}


{#- Whether a checkpoint was noted of a raw table, so that the versions in it are versions of that table. -#}
{% macro _is_noted_of(checkpoint, raw_id) -%}
    {{ return(raw_id is not none and raw_id == checkpoint.get("raw_id")) }}
{%- endmacro %}


{#- Stops a run that would never read anything again: the raw table holds rows, all of them before the place that was read to. -#}
{% macro _refuse_lost_place(spec, d, last) -%}
    {%- set highest = cdc._highest_place(d) -%}
    {%- if highest is not none and highest < last -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ spec.relation ~ " has read " ~ d.table ~ " up to `" ~ d.arrival ~ "` " ~ last
            ~ ", and the highest in " ~ d.relation ~ " is " ~ highest ~ ": it would never read an event again."
            ~ " Nothing was written. If the sequence started over, or a row had a number that was too high, set the table"
            ~ " back to what it has not read: dbt run-operation cdc_replay --args '{table: "
            ~ spec.node.name ~ ("" if d.history else ", since: <the first one to read>") ~ "}'"
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    A condition that is true of what arrived in a window.
      amended   the arrivals of the amendments to read, from one and up to another; without a window all others are left out
-#}
{% macro _is_new_row(arrival, read_from, read_to=none, amended=none) -%}
    {%- set bounds = [] -%}
    {%- if read_from is not none -%}{%- do bounds.append(arrival ~ " > " ~ cdc._number(read_from)) -%}{%- endif -%}
    {%- if read_to is not none -%}{%- do bounds.append(arrival ~ " <= " ~ cdc._number(read_to)) -%}{%- endif -%}
    {%- if amended and bounds -%}
        {{ return("(" ~ (bounds | join(" and ")) ~ " or " ~ cdc._is_new_row(arrival, amended[0], amended[1]) ~ ")") }}
    {%- elif amended -%}
        {{ return("(not " ~ cdc._is_amendment(arrival) ~ " or " ~ cdc._is_new_row(arrival, amended[0], amended[1]) ~ ")") }}
    {%- endif -%}
    {{ return(bounds | join(" and ") or "true") }}
{%- endmacro %}


{#- The raw rows of a declared table between two arrivals. -#}
{% macro _from_new_rows(d, read_from, read_to=none) -%}
    {{ return("from " ~ d.relation ~ " where " ~ ("(" ~ d.where ~ ") and " if d.where else "")
        ~ cdc._is_new_row("(" ~ d.arrival ~ ")", read_from, read_to)) }}
{%- endmacro %}


{#-
    A whole number that came out of a table, as SQL; anything else is refused before it can become part of a statement. So are
    fractions: `_arrived` is a bigint, which would leave them where they were read already. A double is never known to have none.
-#}
{% macro _number(value, d=none) -%}
    {%- if value is not number or not modules.re.fullmatch("-?[0-9]+", value | string) -%}
        {%- set declared = d.table ~ ": `arrival` (" ~ d.arrival ~ ")" if d else "`arrival`" -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ declared ~ " gives `" ~ value ~ "`, which is not a whole number. Declare"
            ~ " one that grows with every row that arrives, for instance `cast(batch as bigint)`.") -%}
    {%- endif -%}
    {{ return(value | string) }}
{%- endmacro %}


{#- A place in the ingestion sequence as a query gives it: a decimal is no number that a checkpoint can hold. -#}
{% macro _place(value, d=none) -%}
    {{ return(none if value is none else cdc._number(value, d) | int) }}
{%- endmacro %}


{#- The highest place in a raw table; none where it has no row. -#}
{% macro _highest_place(d) -%}
    {{ return(cdc._place(run_query("select max(" ~ d.arrival ~ ") from " ~ d.relation).rows[0][0], d)) }}
{%- endmacro %}


{#- Up to so many rows the work on them is less than planning it, by bench/. -#}
{% macro _few_rows() -%}
    {{ return(adapter.dispatch("few_rows", "cdc")()) }}
{%- endmacro %}


{% macro default__few_rows() -%}
    {{ return(20000) }}
{%- endmacro %}


{% macro _refuse_bad_events(spec, read_from, read_to) -%}
    {%- set d = spec.declaration -%}
    {%- set asked -%}
with {{ cdc._decoded_events(d, d.relation) }}

select
    _reason,
    count(*) as events,
    min(_origin) as first_origin
from identified_events
where
    _reason is not null
    {{ "and (_arrived is null or " ~ cdc._is_new_row("_arrived", read_from, read_to) ~ ")" if not spec.follows }}
group by _reason
order by events desc, _reason
limit 5
    {%- endset -%}
    {%- set bad = run_query(asked).rows -%}
    {%- if bad | length -%}
        {%- set lines = [] -%}
        {%- for row in bad -%}
            {%- do lines.append("  - " ~ row[0] ~ ": " ~ row[1] ~ (" event" if row[1] == 1 else " events")
                ~ (", the first at " ~ row[2] if row[2])) -%}
        {%- endfor -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ d.table ~ " has bad events and declares `on_bad_event: fail`. "
            ~ ("Nothing was written" if read_to is none else "Parts of the load that had none were written")
            ~ ". Repair the events at their origin, or declare `on_bad_event: quarantine` to go on without them."
            ~ " The most frequent reasons:\n" ~ (lines | join("\n"))
        ) -%}
    {%- endif -%}
{%- endmacro %}
