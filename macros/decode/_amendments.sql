{#-
    Amendments: deletes and updates of rows by a condition, which `cdc_amend` records. They are events beside those of the source,
    decoded already, in a Delta table for each source table; every reader of the events finds them there, so that a rebuild
    repeats them.

    An amendment stands at the position of the last event that its row had, right after it: its `_event_id` is higher. So late
    events of the source come before it, and later ones after it. The table has the key columns, the columns that amendments set,
    and
      _op                 `D`, or `U`, which carries no value for the columns that it does not set
      _seq, _event_id     the position, and the identity: the same command for the same row is the same event
      _ts                 the time of the amendment, or of the row's last event if that is later; only where events have one
      _cdc_set            the columns that it sets
      _cdc_number         a number for each command, higher than those before
      _cdc_amendment      the command, with _cdc_amended_at and _cdc_reason
-#}
{% macro _amendments_relation(d) -%}
    {{ return(cdc._relation_beside("cdc_amendments", d)) }}
{%- endmacro %}


{#- A table of the package for each declared source table, in the target's schema. -#}
{% macro _relation_beside(prefix, d) -%}
    {#- Case and other characters are lost in a table's name: such names get a hash, so that no two are the same. -#}
    {%- set name = prefix ~ "__" ~ modules.re.sub("[^A-Za-z0-9_]+", "_", d.table | replace(".", "__", 1)) -%}
    {%- if not modules.re.fullmatch("[a-z0-9]+(_[a-z0-9]+)*\\.[a-z0-9]+(_[a-z0-9]+)*", d.table) -%}
        {%- set name = name ~ "_" ~ local_md5(d.table)[:8] -%}
    {%- endif -%}
    {{ return(api.Relation.create(database=none, schema=target.schema, identifier=name, type="table")) }}
{%- endmacro %}


{#-
    The amendments that a SELECT of the events reads; none where there never were any, which dbt's cache of relations tells. None
    in a dbt unit test, and under `--empty`.
-#}
{% macro _amendments_of(d, relation=none) -%}
    {%- set is_empty = relation is not none and relation is not string and relation.limit is not none and relation.limit == 0 -%}
    {%- if not d or d.get("amended") is sameas false or d.keyless or d.key_changes or is_empty
        or cdc._fixture_name("") in relation | string -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(adapter.dispatch("known_amendments", "cdc")(cdc._amendments_relation(d))) }}
{%- endmacro %}


{#- `dbt compile --no-introspect` may not ask at all; nothing is built of what it gives. -#}
{% macro default__known_amendments(relation) -%}
    {{ return(none if flags.INTROSPECT is sameas false else load_relation(relation)) }}
{%- endmacro %}


{#- The `_arrived` of the amendments of a number: after the rows of a snapshot, and before all arrivals. -#}
{% macro _amendment_arrival(number) -%}
    {{ return(cdc._before_arrivals() + number) }}
{%- endmacro %}


{#- Whether an event is an amendment, by its `_arrived`. -#}
{% macro _is_amendment(arrived="_arrived") -%}
    {{ return("coalesce(" ~ arrived ~ " between " ~ cdc._amendment_arrival(1) ~ " and "
        ~ cdc._amendment_arrival(1000000000000000000) ~ ", false)") }}
{%- endmacro %}


{#-
    CTEs that join the amendments to the events of the source. The table may lack columns that no amendment sets, and may have
    others by their former names: names that it does not have are found outside of the lateral subquery, where they are NULL.
      source   the CTE of the source's events
      last     what the CTE of all events is called
-#}
{% macro _with_amendments(d, amendments, source, last) -%}
    {%- set absent, unset, values, old_keys = [], [], [], [] -%}
    {%- for column in d.columns -%}
        {%- set names = [] -%}
        {%- for name in cdc._names_of(d, column.name) -%}
            {%- do absent.append("null as " ~ cdc._quoted(name)) -%}
            {%- do names.append(cdc._literal(name)) -%}
        {%- endfor -%}
        {%- do values.append("cast(" ~ cdc._latest_named(d, column.name) ~ " as " ~ cdc._table_type(column) ~ ") as "
            ~ cdc._quoted(column.name)) -%}
        {%- if column.name in d.key_columns -%}
            {%- do old_keys.append("cast(null as " ~ cdc._table_type(column) ~ ") as " ~ cdc._quoted("_old_" ~ column.name)) -%}
        {%- else -%}
            {%- do unset.append("case when not arrays_overlap(_cdc_set, array(" ~ (names | join(", ")) ~ ")) then "
                ~ cdc._literal(column.name) ~ " end") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set none_unset = "cast(array() as array<string>)" -%}
    {%- set columns = cdc._column_list(cdc._joined_columns(d)) -%}
amendment_events as (
    select amendments.*
    from (select {{ absent | join(", ") }}) as absent_columns
    cross join lateral (
        select
            cast(null as string) as _payload,
            concat('amendment ', _cdc_amendment) as _origin,
            {{ cdc._before_arrivals() }} + _cdc_number as _arrived,
            cast(null as string) as _reason,
            _event_id,
            _op,
            _seq,
            {%- if cdc._has_event_time(d) %}
            _ts,
            {%- endif %}
            {{ "if(_op = 'U', array_except(array(" ~ (unset | join(", ")) ~ "), array(null)), " ~ none_unset ~ ")" if unset
                else none_unset }} as _unset,
            {{ (values + old_keys) | join(",\n            ") }}
        from {{ amendments }}
    ) as amendments
),

{{ last }} as (
    select {{ columns }}
    from {{ source }}
    union all
    select {{ columns }}
    from amendment_events
)
{%- endmacro %}


{#- The columns of events that come from several tables. -#}
{% macro _joined_columns(d) -%}
    {%- set columns = ["_payload", "_origin", "_arrived", "_reason", "_event_id", "_op", "_seq"] -%}
    {%- if cdc._has_event_time(d) -%}{%- do columns.append("_ts") -%}{%- endif -%}
    {%- do columns.append("_unset") -%}
    {%- for column in d.columns -%}{%- do columns.append(column.name) -%}{%- endfor -%}
    {%- for key in d.key_columns if not d.keyless -%}{%- do columns.append("_old_" ~ key) -%}{%- endfor -%}
    {{ return(columns) }}
{%- endmacro %}


{#- The last commit of the amendments, for the fingerprint of what reads them. -#}
{% macro _amendment_commits(d) -%}
    {%- set amendments = cdc._amendments_of(d) -%}
    {{ return([cdc._last_commit(amendments)] if amendments else []) }}
{%- endmacro %}


{#-
    The amendments that a table has not read: `range`, their arrivals, none where there are none or all are read; `rows`, how many
    they are; `position`, for the checkpoint. A run that reads all events of its source leaves out those that it has read before:
    the table remembers them, and the events of their rows may be gone.
-#}
{% macro _new_amendments(spec, d, checkpoint, reads_all) -%}
    {%- set amendments = cdc._amendments_of(d, d.relation) if d else none -%}
    {%- if amendments is none -%}
        {{ return({"range": none, "rows": 0, "position": {}}) }}
    {%- endif -%}
    {%- set known = 0 if spec.rebuild else checkpoint.get("amended") or 0 -%}
    {%- set found = run_query("select max(_cdc_number), count_if(_cdc_number > " ~ cdc._number(known) ~ ") from "
        ~ amendments).rows[0] -%}
    {%- set newest = [found[0] or 0, known] | max -%}
    {%- set range = [cdc._amendment_arrival(known), cdc._amendment_arrival(newest)] -%}
    {%- if newest > known -%}
        {%- do cdc._refuse_old_staging(spec, d, range) -%}
    {%- endif -%}
    {%- set is_limited = known > 0 if reads_all else newest > known -%}
    {{ return({"range": range if is_limited else none, "rows": found[1], "position": {"amended": newest}}) }}
{%- endmacro %}


{#- Stops a run whose staging view was built before the newest amendments: it would count them as read. -#}
{% macro _refuse_old_staging(spec, d, range) -%}
    {%- if "_arrived" not in spec.types -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set condition = cdc._is_new_row("_arrived", range[0], range[1]) -%}
    {%- set asked -%}
select
    (
        select count(*)
        from ({{ spec.events_sql }}) as staged_events
        where {{ condition }}
    ) as staged,
    (
        with {{ cdc._decoded_events(d, d.relation) }}

        select count(*)
        from identified_events
        where {{ condition }}
    ) as recorded
    {%- endset -%}
    {%- set found = run_query(asked).rows[0] -%}
    {%- if found[0] != found[1] -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ spec.relation ~ ": " ~ d.table ~ " has amendments that the staging model does not show, because it was built"
            ~ " before them. Nothing was written. Build it, too: dbt build --select +" ~ spec.node.name
        ) -%}
    {%- endif -%}
{%- endmacro %}
