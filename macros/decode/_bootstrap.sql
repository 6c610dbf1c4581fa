{#-
    A table that starts from a snapshot of its source: `cdc_bootstrap` copies the snapshot's rows into a Delta table of their own,
    each with the snapshot's position, and every reader of the events finds them beside the stream's. They are decoded as rows of
    the format flagged, so that types, masks, keys, the quarantine and the erasure list mean the same for them.

    The copy has the snapshot's columns and
      _cdc_position   the position, in the type of the stream's `_seq`
      _cdc_time       the time, in the type of the stream's `_ts`; only where events have one
      _cdc_row        a number for each row
      _cdc_part       `row`; `position` in the one row that completes the copy: the lowest position, up to which the snapshot
                      covers the stream
      _cdc_declared   in that row: which table it is, and at which position, as declared
-#}
{% macro _bootstrap_relation(d) -%}
    {{ return(api.Relation.create(
        database=none, schema=target.schema, identifier="cdc_bootstrap__" ~ modules.re.sub("\\W+", "_", d.table), type="table"
    )) }}
{%- endmacro %}


{#- What is wrong with the names of the copies of several declared tables. -#}
{% macro _bootstrap_name_problems(declarations) -%}
    {%- set tables = {} -%}
    {%- for d in declarations if d.bootstrap -%}
        {%- do tables.setdefault(cdc._bootstrap_relation(d).identifier | lower, []).append(d.table) -%}
    {%- endfor -%}
    {%- set problems = [] -%}
    {%- for copy, named in tables.items() if named | length > 1 -%}
        {%- do problems.append((named | sort | join(" and "))
            ~ ": they start from snapshots (`bootstrap`) whose copies would both be " ~ copy
            ~ ". Give one of the source tables another `name`, and its raw table by `identifier`.") -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{#- What a copy was taken for, as it is declared. -#}
{% macro _bootstrap_mark(d) -%}
    {{ return(tojson([d.table, d.bootstrap.position])) }}
{%- endmacro %}


{#-
    The copy that a SELECT of the events reads; none where the table starts from nothing, in a dbt unit test, and under `--empty`.
    Where the snapshot has not been taken, Spark refuses the SELECT: a build without the copy would show a part of the rows.
-#}
{% macro _bootstrap_of(d, relation) -%}
    {%- set is_empty = relation is not string and relation.limit is not none and relation.limit == 0 -%}
    {%- if not d.bootstrap or is_empty or cdc._fixture_name("") in relation | string -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(cdc._bootstrap_relation(d)) }}
{%- endmacro %}


{#- How the rows of a copy are decoded. They come before all arrivals: a batch of later ones does not read them. -#}
{% macro _bootstrap_declaration(d) -%}
    {{ return(dict(
        d,
        is_bootstrap=true,
        bootstrap=none,
        amended=false,
        sees_erased=true,
        relation=cdc._bootstrap_relation(d) | string,
        format="flagged",
        traits=cdc._formats().flagged,
        payload=none,
        landed=false,
        problem=none,
        where="_cdc_part = 'row'",
        sequence_by=["_cdc_position"],
        event_time="_cdc_time" if cdc._has_event_time(d) else false,
        operation="'I'",
        apply_as_deletes=none,
        apply_as_truncates=none,
        changed_columns=none,
        arrival=cdc._before_arrivals() | string if d.arrival else none,
        arrival_overlap=0,
        batch_order=none,
        origin="concat(" ~ cdc._literal("snapshot of " ~ d.table ~ ", row ") ~ ", _cdc_row)",
        source_table=[],
        encodings={},
        message_key=none,
        old_key=none
    )) }}
{%- endmacro %}


{#- The arrival of the rows of a copy. -#}
{% macro _before_arrivals() -%}
    {{ return(-4611686018427387904) }}
{%- endmacro %}


{#-
    CTEs that join the rows of a snapshot to `stream_events`. What the snapshot covers, events at its position or before, is in
    its rows already and left out (`__cdc_is_covered` in `placed_events`): an old delete does not remove a row, nor does an old
    insert of a row that was deleted bring it back, in whatever order they arrive.
      last   what the CTE of all events is called
-#}
{% macro _with_bootstrap(d, bootstrap, last) -%}
    {%- set columns = cdc._joined_columns(d) -%}
    {%- set problem = "cdc: " ~ bootstrap ~ ", the snapshot that " ~ d.table ~ " starts from, is not complete, or was taken"
        ~ " at another position than the declared one. If it is not complete, run cdc_bootstrap again."
        ~ " Else declare the position that it was taken at; or, to start from another snapshot, drop it and what was built"
        ~ " of it, and run cdc_bootstrap." -%}
snapshot_position as (
    select
        if(
            count(*) = 1 and max(_cdc_declared) = {{ cdc._literal(cdc._bootstrap_mark(d)) }},
            max(_cdc_position),
            raise_error({{ cdc._literal(problem) }})
        ) as __cdc_position
    from {{ bootstrap }}
    where _cdc_part = 'position'
),

placed_events as (
    select /*+ broadcast(snapshot_position) */
        stream_events.*,
        coalesce(stream_events._seq <= snapshot_position.__cdc_position, false) as __cdc_is_covered
    from stream_events
    cross join snapshot_position
),

snapshot_events as (
    with {{ cdc._decoded_events(cdc._bootstrap_declaration(d), bootstrap | string) | indent(4) }}

    select {{ cdc._column_list(columns) }}
    from identified_events
),

{{ last }} as (
    select {{ cdc._column_list(columns) }}
    from placed_events
    where not __cdc_is_covered
    union all
    select {{ cdc._column_list(columns) }}
    from snapshot_events
)
{%- endmacro %}


{#- The declaration of the copy that a table starts from, as a list: empty where there is none. -#}
{% macro _bootstraps(d) -%}
    {{ return([cdc._bootstrap_declaration(d)] if cdc._bootstrap_of(d, d.relation) else []) }}
{%- endmacro %}


{#- How many rows the snapshot has that a table starts from, as a run counts raw rows. -#}
{% macro _bootstrap_rows(d) -%}
    {%- set copy = cdc._bootstrap_of(d, d.relation) -%}
    {{ return(run_query("select count(*) from " ~ copy ~ " where _cdc_part = 'row'").rows[0][0] if copy else 0) }}
{%- endmacro %}


{#- What a checkpoint says of the snapshot: which copy it is, if this is known, and as what it was declared. -#}
{% macro _bootstrap_position(d) -%}
    {%- set copy = cdc._bootstrap_of(d, d.relation) -%}
    {{ return({"bootstrap": [cdc._table_id(copy), cdc._bootstrap_mark(d)]} if copy else {}) }}
{%- endmacro %}


{#- The last commit of that snapshot, for the fingerprint of what reads it. -#}
{% macro _bootstrap_commits(d) -%}
    {%- set copy = cdc._bootstrap_of(d, d.relation) -%}
    {{ return([cdc._last_commit(copy)] if copy else []) }}
{%- endmacro %}


{#-
    Stops a build of a table that was built from another snapshot, or from none: it remembers events that the snapshot covers, or
    lacks those that the other one did.
-#}
{% macro _refuse_other_bootstrap(relation, node, d, checkpoint) -%}
    {%- if "fingerprint" in checkpoint and checkpoint.get("bootstrap") != cdc._bootstrap_position(d).get("bootstrap") -%}
        {%- set copy = cdc._bootstrap_of(d, d.relation) -%}
        {%- if copy and load_relation(copy) is none -%}
            {%- do exceptions.raise_compiler_error(
                "cdc: " ~ d.table ~ " starts from a snapshot (`bootstrap`), which is not there: " ~ copy ~ " is missing."
                ~ " Nothing was written. Restore that table, or take the snapshot again: dbt run-operation cdc_bootstrap"
            ) -%}
        {%- endif -%}
        {%- set rebuild = " --vars '{cdc_rebuild: " ~ node.name ~ "}'" if node.resource_type == "snapshot" else "" -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ relation ~ " was built from " ~ ("another snapshot" if checkpoint.get("bootstrap") else "the stream alone")
            ~ ", and " ~ d.table ~ " now starts from " ~ ("the one in " ~ cdc._bootstrap_relation(d) if d.bootstrap else "none")
            ~ ". Nothing was written. Build it from all events again: dbt build --full-refresh --select " ~ node.name ~ "+"
            ~ rebuild
        ) -%}
    {%- endif -%}
{%- endmacro %}
