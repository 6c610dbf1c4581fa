{#-
    `dbt run-operation cdc_compact --args '{keep_versions: 5, older_than_days: 90, dry_run: false}'`: drops superseded versions of
    histories, of one `table` or of all. Open versions stay. What is dropped can only be had again by a full refresh.

    What a later event needs is kept: when each life began, where the last one before it ended, and the values of the first
    version that is left. A late event from before that version gets a version of its own there, closed by it, and fills no gap
    after it.
-#}
{% macro cdc_compact(table=none, keep_versions=none, older_than_days=none, dry_run=true) -%}
    {{ return(adapter.dispatch("cdc_compact", "cdc")(table, keep_versions, older_than_days, dry_run)) }}
{%- endmacro %}


{% macro default__cdc_compact(table, keep_versions, older_than_days, dry_run) -%}
    {%- if keep_versions is none and older_than_days is none -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: cdc_compact needs `keep_versions`, `older_than_days` or both. With both, a version is dropped if it is beyond"
            ~ " both."
        ) -%}
    {%- endif -%}
    {%- for node in cdc._managed_nodes(table) if node.resource_type == "snapshot" or table is not none -%}
        {%- set d = cdc._upstream_declaration(node) -%}
        {%- set relation = cdc._relation_of(node) -%}
        {%- if node.resource_type != "snapshot" -%}
            {%- do exceptions.raise_compiler_error(
                "cdc: " ~ node.name ~ " is not a history. Name a snapshot with `strategy: cdc.scd2`."
            ) -%}
        {%- elif d.key_changes -%}
            {%- do log("cdc: " ~ node.name ~ " is not compacted: with `key_changes` its rows are folded from all events",
                info=true) -%}
        {%- elif load_relation(relation) is not none -%}
            {%- set spec = cdc._spec_of_table(node, relation) -%}
            {%- if older_than_days is not none and spec.types["dbt_valid_to"] != "timestamp" -%}
                {%- do exceptions.raise_compiler_error(
                    "cdc: " ~ node.name ~ " has no event time, so its versions have no age. Compact it by `keep_versions`."
                ) -%}
            {%- endif -%}
            {%- do cdc._compact_history(spec, keep_versions, older_than_days, dry_run) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}


{#- The plan of a history, see `_history_spec`, made of the table itself: what the declaration says now does not matter. -#}
{% macro _spec_of_table(node, relation) -%}
    {%- set types = cdc._column_types(relation) -%}
    {%- set keys = cdc._table_properties(relation)["cdc.keys"].split(", ") -%}
    {%- set values = types.keys() | reject("in", cdc._history_columns({"key_columns": keys, "value_columns": []})) | list -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {{ return({
        "relation": relation,
        "key_columns": keys,
        "value_columns": values,
        "tracked": (declaration.track_history_columns if declaration else []) or values,
        "types": types,
        "time": "_ts" if cdc._keeps_time(types) else "_seq",
        "lives": false,
        "rebuild": false,
        "recognizes": false,
        "tombstones": cdc._tombstones_of(relation),
    }) }}
{%- endmacro %}


{% macro _compact_history(spec, keep_versions, older_than_days, dry_run) -%}
    {%- set compacted = cdc._compacted_versions(spec, keep_versions, older_than_days) -%}
    {%- set counts = run_query(
        compacted ~ " select count(*), count_if(_is_dropped) from ranked_versions"
    ).rows[0] -%}
    {%- do log(
        "cdc: " ~ spec.relation.identifier ~ ": " ~ counts[1] ~ " of " ~ counts[0] ~ " versions "
        ~ ("would be dropped; run with dry_run: false" if dry_run else "are dropped"), info=true
    ) -%}
    {%- if counts[1] and not dry_run -%}
        {%- set keys = cdc._column_list(spec.key_columns) -%}
        {%- set checkpoint = cdc._read_checkpoint(spec.relation) -%}
        {%- do run_query("alter table " ~ spec.relation ~ " set tblproperties ('cdc.compacted' = 'true')") -%}
        {%- set ends -%}
            {{ compacted }}
            select
                {{ keys }},
                'D' as _op,
                _end._seq,
                {{ "_end._ts," if spec.time == "_ts" }}
                _end._event_id
            from kept_marks
            where _end is not null and _first_id is null
        {%- endset -%}
        {%- do cdc._insert_tombstones(spec, ends) -%}
        {%- set merge = cdc._merge(spec.relation, "(" ~ compacted ~ " select * from compacted_versions)", [
            "DBT_INTERNAL_DEST.dbt_scd_id = DBT_INTERNAL_SOURCE.dbt_scd_id",
        ] + cdc._key_predicates(spec.key_columns), [
            {"when": "matched and DBT_INTERNAL_SOURCE._events is null", "then": "delete"},
            {"when": "matched", "then": "update", "columns": ["_events"]},
        ]) -%}
        {%- do cdc._commit_with_checkpoint(spec.relation, dict(checkpoint, base=checkpoint.at), "MERGE", merge) -%}
        {%- do cdc._refuse_foreign_writes(spec.relation, checkpoint.at) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    CTEs: `ranked_versions`, those that go marked; `kept_marks`, what stays of them, a row a key; `compacted_versions`, what a merge
    deletes (no _events) and the first versions that are left, with the marks.
-#}
{% macro _compacted_versions(spec, keep_versions, older_than_days) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
    {%- set untracked = cdc._untracked(spec) -%}
    {%- set unset = cdc._literals(spec.value_columns) -%}
with remembering_versions as (
    select
        * except (_events),
        coalesce(_events, array({{ cdc._sole_event(spec) }})) as _events
    from {{ spec.relation }}
),

numbered_versions as (
    select
        *,
        row_number() over (partition by {{ keys }} order by _seq desc) as _age
    from remembering_versions
),

dated_versions as (
    select
        *,
        _seq_end is not null
        {{ "and _age > " ~ (keep_versions | int) if keep_versions is not none }}
        {%- if older_than_days is not none %}
        and dbt_valid_to < current_timestamp() - make_dt_interval({{ older_than_days | int }})
        {%- endif %}
            as _may_be_dropped
    from numbered_versions
),

{#- Times need not follow positions: what is left of a key is its latest versions, without a gap. -#}
ranked_versions as (
    select
        * except (_may_be_dropped),
        min(_may_be_dropped) over (partition by {{ keys }} order by _seq, _seq_end nulls last) as _is_dropped
    from dated_versions
),

kept_marks as (
    select
        {{ keys }},
        array_max(flatten(collect_list(filter(_events, event -> event._op in ('D', 'M'))) filter (where _is_dropped))) as _end,
        min_by(dbt_scd_id, _seq) filter (where not _is_dropped) as _first_id,
        min_by(_cdc_created_at, _seq) filter (where not _is_dropped) as _created,
        max_by(_cdc_created_at, _seq) filter (where _is_dropped) as _dropped_created,
        collect_list(struct(
            _cdc_created_at,
            coalesce(array_min(filter(_events, event -> event._op = 'B'))._seq, _seq) as _seq
        )) filter (where _is_dropped) as _births
    from ranked_versions
    group by {{ keys }}
    having count_if(_is_dropped) > 0
),

compacted_versions as (
    select
        {{ cdc._column_list(spec.key_columns) }},
        dbt_scd_id,
        null as _events
    from ranked_versions
    where _is_dropped
    union all
    select
        {{ cdc._column_list(spec.key_columns, "versions") }},
        versions.dbt_scd_id,
        concat(
            array_compact(array(_end)),
            if(
                _created <=> _dropped_created and (_end is null or _end._seq < versions._seq),
                array(struct(
                    array_min(filter(_births, birth -> birth._cdc_created_at <=> _created))._seq as _seq,
                    'B' as _op,
                    cast(0 as bigint) as _event_id,
                    {{ "_created as _ts," if spec.time == "_ts" }}
                    cast(array({{ unset | join(", ") }}) as array<string>) as _unset
                    {%- if untracked %},
                    if(true, null, struct({{ cdc._column_list(untracked) }})) as _image
                    {%- endif %}
                )),
                cast(array() as {{ spec.types["_events"] }})
            ),
            transform(versions._events, event -> if(
                event._op in ('I', 'U')
                and event._event_id = filter(versions._events, other -> other._op in ('I', 'U'))[0]._event_id,
                struct(
                    event._seq,
                    event._op,
                    event._event_id,
                    {{ "event._ts," if spec.time == "_ts" }}
                    cast(array() as array<string>) as _unset
                    {%- if untracked %},
                    event._image
                    {%- endif %}
                ),
                event
            ))
        ) as _events
    from ranked_versions as versions
    inner join kept_marks on versions.dbt_scd_id = kept_marks._first_id and {{ cdc._same(spec.key_columns, "versions", "kept_marks") }}
)
{%- endmacro %}
