{#-
    What is erased of a table with `key_changes`: rows of the source, with all the keys that they had. The tables of `subject` get
    the columns by which their rows are found. Refuses rows that cannot be distinguished from others. Returns
      entities   the rows, a step
      events     their events in the resolver's table, a step
      ranges     when they had which key, together with the list: a step
      new        the ranges that are not on the list yet, a step
      count      how many rows
      unclear    how many events moved an erased row to a key that another row had
-#}
{% macro _erased_entities(subject, where, keys, unfinished) -%}
    {%- set d = subject.declaration -%}
    {%- set resolver = subject.resolver | string -%}
    {%- set large = {"relation": subject.resolver, "is_large": true} -%}
    {%- set list = cdc._erasure_list(cdc._erased_ranges_relation(d)) -%}
    {%- set columns = "key_hash, is_end, lower_bound, upper_bound, entity_id" -%}
    {%- set given = none -%}
    {%- if keys -%}
        {%- set given = cdc._step(large, "given_keys", cdc._given_keys(d, resolver, keys, list), true, scans_table=true) -%}
        {%- do cdc._refuse_shared_keys(d, given) -%}
    {%- endif -%}
    {%- if not unfinished -%}{%- do cdc._refuse_unresolved(subject) -%}{%- endif -%}
    {%- set moves = cdc._step(large, "late_moves", cdc._late_moves(d, resolver, list), true, scans_table=true) if list else none -%}
    {%- set found = [] -%}
    {%- if where is not none -%}
        {%- do found.append("select _entity_id from " ~ cdc._named_rows(subject) ~ cdc._meeting(where)) -%}
    {%- endif -%}
    {%- if given -%}{%- do found.append("select entity_id as _entity_id from " ~ given.relation) -%}{%- endif -%}
    {%- if moves -%}{%- do found.append("select entity_id as _entity_id from " ~ moves.relation ~ " where is_free") -%}{%- endif -%}
    {%- set named = cdc._step(large, "named_entities", "select distinct _entity_id from ("
        ~ (found | join(" union all ") or "select cast(null as bigint) as _entity_id")
        ~ ") as found_entities where _entity_id is not null", true, scans_table=true) -%}
    {%- do cdc._refuse_takers(d, resolver, named) -%}
    {%- set parts = [cdc._entity_ranges(d, resolver, named.relation)] -%}
    {%- if given -%}{%- do parts.append(cdc._unknown_key_ranges(resolver, given.relation)) -%}{%- endif -%}
    {%- if moves -%}
        {%- do parts.append("select key_hash, explode(array(false, true)) as is_end, lower_bound, upper_bound, entity_id from "
            ~ moves.relation ~ " where is_free and entity_id is null") -%}
    {%- endif -%}
    {%- set new = cdc._step(large, "new_ranges", "select " ~ columns ~ ", cast(null as string) as counts_from from (("
        ~ (parts | join(") union all (")) ~ ")) as found_ranges", true, scans_table=true) -%}
    {%- set ranges = cdc._step(large, "erased_ranges", "select * from " ~ new.relation
        ~ (" union all select " ~ columns ~ ", counts_from from " ~ list if list else ""), true) -%}
    {%- set ranged = cdc._ranged_events(d, resolver, ranges.relation, named, list) -%}
    {%- set events = cdc._step(large, "erased_events", ranged, true, scans_table=true) -%}
    {%- do cdc._refuse_mixed_rows(d, events) -%}
    {#- The name of an erased row may be another one's by now, if tables were built before its erasure was finished. -#}
    {%- set known = "select _entity_id from " ~ named.relation
        ~ (" union select entity_id from " ~ list ~ " where not is_done" if unfinished else "") -%}
    {%- set entities = cdc._step(large, "erased_entities", cdc._gone_entities(resolver, known, events), true, scans_table=true) -%}
    {%- set identities = cdc._step(large, "erased_identities", "select _event_id from " ~ events.relation, true) -%}
    {%- for table in subject.tables -%}
        {%- if table.role == "keys" -%}
            {%- do table.update({"key_columns": ["_event_id"], "erased": identities}) -%}
        {%- elif table.role == "changelog" -%}
            {%- do table.update(cdc._erased_changes(d, table, loop.index, entities, new, unfinished and list)) -%}
        {%- else -%}
            {%- do table.update({"key_columns": ["_entity_id"], "erased": entities}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set unclear = run_query("select count(*) from " ~ moves.relation ~ " where not is_free").rows[0][0] if moves else 0 -%}
    {{ return({"relation": entities.relation, "rows": entities.rows, "events": events, "ranges": ranges, "new": new,
        "unclear": unclear}) }}
{%- endmacro %}


{#- Of the rows that are known to be erased, those that no event stays of under the same name. -#}
{% macro _gone_entities(resolver, known, events) -%}
with known_entities as (
    select distinct _entity_id
    from ({{ known }}) as erased_rows
    where _entity_id is not null
),

staying_entities as (
    select distinct resolved_events._entity_id
    from {{ resolver }} as resolved_events
    left semi join known_entities on resolved_events._entity_id = known_entities._entity_id
    left anti join {{ events.relation }} as erased_events on resolved_events._event_id = erased_events._event_id
)

select _entity_id
from known_entities
left anti join staying_entities using (_entity_id)
{%- endmacro %}


{#-
    The keys that are named, by their place in `keys`, each with the rows that had it; `__cdc_is_known` is false of one that no
    row had and that is not on the list.
-#}
{% macro _given_keys(d, resolver, keys, list) -%}
    {%- set rows = [] -%}
    {%- for key in keys -%}
        {%- set hash = cdc._key_hash(d, cdc._key_literals(d, key)) -%}
        {%- do rows.append("select " ~ loop.index ~ " as place, " ~ hash ~ " as key_hash" ~ cdc._mask_row(d)) -%}
    {%- endfor -%}
with {{ cdc._key_marks(d, resolver) }}

select distinct
    given.place,
    given.key_hash,
    key_marks._entity_id as entity_id,
    key_marks._entity_id is not null{% if list %} or given.key_hash in (select key_hash from {{ list }}){% endif %} as __cdc_is_known
from ({{ rows | join(" union all ") }}) as given
left join key_marks on given.key_hash = key_marks.__cdc_key_hash
{%- endmacro %}


{#- A key that has belonged to several rows says of none of them that it is meant. -#}
{% macro _refuse_shared_keys(d, given) -%}
    {%- set problems = [] -%}
    {%- for row in run_query("select place, count(*) from " ~ given.relation
        ~ " group by place having count(*) > 1 order by place").rows -%}
        {%- do problems.append("key " ~ row[0] ~ " of `keys` has belonged to " ~ row[1] ~ " rows of the source. Use `where`"
            ~ " instead: a condition on the final table finds the row that has the key now, a condition on the history every"
            ~ " row that ever had it.") -%}
    {%- endfor -%}
    {%- do cdc._refuse_operation("cdc_erase", d.table, problems) -%}
{%- endmacro %}


{#- What the resolver has not read yet may belong to the row, or tell that the row had ended. -#}
{% macro _refuse_unresolved(subject) -%}
    {%- set d = subject.declaration -%}
    {%- set asked -%}
with {{ cdc._decoded_events(d, d.relation) }}

select count(*)
from identified_events
left anti join {{ subject.resolver }} as resolved_events on identified_events._event_id = resolved_events._event_id
where _reason is null
    {%- endset -%}
    {%- set unread = run_query(asked).rows[0][0] -%}
    {%- if unread -%}
        {%- do cdc._refuse_operation("cdc_erase", d.table, [subject.resolver ~ " has not read " ~ unread ~ " events of " ~ d.table
            ~ ", which may belong to the same row. Build it first: dbt build --select +"
            ~ subject.resolver_name ~ "+"]) -%}
    {%- endif -%}
{%- endmacro %}


{#- Without the event that took its key, a row that stays would never have ended. -#}
{% macro _refuse_takers(d, resolver, named) -%}
    {%- set asked -%}
select count(distinct takers._entity_id)
from {{ resolver }} as takers
left semi join {{ named.relation }} as named on takers._entity_id = named._entity_id
left anti join {{ named.relation }} as ended on takers._ended_entity_id = ended._entity_id
left semi join {{ resolver }} as staying on takers._ended_entity_id = staying._entity_id
where takers._ended_entity_id is not null
    {%- endset -%}
    {%- set takers = run_query(asked).rows[0][0] -%}
    {%- if takers -%}
        {%- do cdc._refuse_operation("cdc_erase", d.table, [takers ~ (" row" if takers == 1 else " rows")
            ~ " to be erased ended another row by taking its key. No other event ends that row, and it would come back. Wait for the event that ended it, or erase that row as"
            ~ " well (`_ended_entity_id` in " ~ resolver ~ " names it)."]) -%}
    {%- endif -%}
{%- endmacro %}


{#- The events of a resolver's table that are in a range or of one of the rows, and whether one tells the same as the other. -#}
{% macro _ranged_events(d, resolver, ranges, named, list) -%}
with all_events as (
    select * except (_entity_id), _entity_id as __cdc_entity
    from {{ resolver }}
    where _op <> 'T'
),

{{ cdc._without_erased_ranges(d, ranges) }},

compared_events as (
    select
        judged_events._event_id,
        judged_events.__cdc_is_erased,
        named._entity_id is not null as __cdc_is_named,
        {{ "listed._entity_id is not null" if list else "false" }} as __cdc_is_listed
    from judged_events
    left join {{ named.relation }} as named on judged_events.__cdc_entity = named._entity_id
    {%- if list %}
    left join (select distinct entity_id as _entity_id from {{ list }}) as listed on judged_events.__cdc_entity = listed._entity_id
    {%- endif %}
)

select
    _event_id,
    if(__cdc_is_named, not __cdc_is_erased, not __cdc_is_listed) as __cdc_is_mixed
from compared_events
where __cdc_is_erased or __cdc_is_named
{%- endmacro %}


{#- Positions tell the events of the rows from all others, or nothing is erased. -#}
{% macro _refuse_mixed_rows(d, events) -%}
    {%- set mixed = run_query("select count(*) from " ~ events.relation ~ " where __cdc_is_mixed").rows[0][0] -%}
    {%- if mixed -%}
        {%- set events = " event stands" if mixed == 1 else " events stand" -%}
        {%- do cdc._refuse_operation("cdc_erase", d.table, [mixed ~ events ~ " at a position of a key that both a row to be"
            ~ " erased and another row have, and a position cannot distinguish them. Erase the other row as well; `cdc explain`"
            ~ " shows the rows of a key."]) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    The rows of a changelog that show the rows: by their name, or by key and position, for a changelog keeps the names that rows
    had then.
      number   tells the steps of several changelogs apart
      list     the list, where an erasure is unfinished
-#}
{% macro _erased_changes(d, table, number, entities, new, list) -%}
    {%- set types = cdc._table_types(table.relation) -%}
    {%- set columns = ["_entity_id", "_commit_version", "_row_kind"] + (["dbt_scd_id"] if "dbt_scd_id" in types else []) -%}
    {%- set query -%}
with erased_keys as (
    select
        key_hash,
        collect_list(struct(lower_bound, upper_bound)) as __cdc_ranges
    from (
        select * from {{ new.relation }}
        {%- if list %}
        union all
        select
            key_hash,
            is_end,
            lower_bound,
            upper_bound,
            entity_id,
            counts_from
        from {{ list }}
        where not is_done
        {%- endif %}
    ) as ranges
    where not is_end
    group by key_hash
),

shown_rows as (
    select
        {{ cdc._column_list(columns) }},
        _cdc_seq as _seq,
        {{ cdc._row_key_hash(d) }} as __cdc_key_hash
    from {{ table.relation }}
)

select distinct {{ cdc._column_list(columns, "shown_rows") }}
from shown_rows
left join erased_keys on shown_rows.__cdc_key_hash = erased_keys.key_hash
left join {{ entities.relation }} as entities on shown_rows._entity_id = entities._entity_id
where entities._entity_id is not null or {{ cdc._is_in_some_range("erased_keys", "shown_rows") }}
    {%- endset -%}
    {%- set large = {"relation": table.relation, "is_large": true} -%}
    {{ return({"key_columns": columns, "erased": cdc._step(large, "erased_changes_" ~ number, query, true, scans_table=true)}) }}
{%- endmacro %}


{#-
    Puts the ranges on the list. A key that is named again and has no row any more loses its permission to return.
-#}
{% macro _list_erased_ranges(subject, erased, keys, erasure_id) -%}
    {%- set d = subject.declaration -%}
    {%- set list = cdc._erased_ranges_relation(d) -%}
    {%- set row = "select key_hash, is_end, lower_bound, upper_bound, entity_id, " ~ cdc._literal(erasure_id)
        ~ " as erasure_id, current_timestamp() as erased_at, counts_from, false as is_done from " ~ erased.new.relation -%}
    {%- if cdc._erasure_list(list) is none -%}
        {%- do adapter.create_schema(list) -%}
        {%- do cdc._create_if_missing(list, row) -%}
    {%- endif -%}
    {%- if erased.new.rows | length -%}
        {%- do run_query("insert into " ~ list ~ " " ~ row) -%}
    {%- else -%}
        {#- What arrived since: only all of them say that it is not finished. -#}
        {%- do run_query("update " ~ list ~ " set is_done = false") -%}
    {%- endif -%}
    {%- if keys -%}
        {%- set source = "(select distinct key_hash from (" ~ cdc._given_keys(d, subject.resolver, keys, none)
            ~ ") as given where entity_id is null)" -%}
        {%- do run_query(cdc._merge(list, source, cdc._key_predicates(["key_hash"])
            + ["DBT_INTERNAL_DEST.counts_from is not null"], [])
            ~ "\nwhen matched then update set counts_from = null") -%}
    {%- endif -%}
{%- endmacro %}
