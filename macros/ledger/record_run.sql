{#-
    For `on-run-end`: writes what each table's run came to into the ledger `cdc_runs`, a row a table. A run that found nothing new
    writes no row, and a table whose run failed none either.
-#}
{% macro record_run(results) -%}
    {{ return(adapter.dispatch("record_run", "cdc")(results)) }}
{%- endmacro %}


{% macro default__record_run(results) -%}
    {%- set seconds = {} -%}
    {%- for result in results if result.status == "success" -%}
        {%- do seconds.update({result.node.unique_id: result.execution_time}) -%}
    {%- endfor -%}
    {%- set rows = [] -%}
    {%- for run in (cdc._recorded_runs(seconds) if seconds else []) -%}
        {%- set values = [
            cdc._literal(invocation_id),
            "timestamp " ~ cdc._literal(run_started_at.strftime("%Y-%m-%d %H:%M:%S.%f") ~ " UTC"),
            cdc._literal(run.table),
            cdc._literal(run.node.name),
        ] -%}
        {%- for counter in cdc._ledger_counters() -%}
            {%- set value = run.counters.get(counter) -%}
            {%- do values.append("cast(" ~ ("null" if value is none else value) ~ " as bigint)") -%}
        {%- endfor -%}
        {%- do values.append("cast(" ~ seconds[run.node.unique_id] ~ " as double)") -%}
        {%- do rows.append("(" ~ (values | join(", ")) ~ ")") -%}
    {%- endfor -%}
    {%- if rows -%}
        {%- set columns = [] -%}
        {%- for counter in cdc._ledger_counters() -%}
            {%- do columns.append(("" if "watermark" in counter else "events_") ~ counter) -%}
        {%- endfor -%}
        {%- set ledger = api.Relation.create(database=none, schema=target.schema, identifier="cdc_runs", type="table") -%}
        {%- if load_relation(ledger) is none -%}
            {%- do adapter.create_schema(ledger) -%}
            {%- set types = {"run_id": "string", "run_started_at": "timestamp", "table_name": "string", "node": "string"} -%}
            {%- for column in columns -%}{%- do types.update({column: "bigint"}) -%}{%- endfor -%}
            {%- do cdc._create_if_missing(ledger, cdc._null_row(dict(types, seconds="double"))) -%}
        {%- elif "events_erased" not in cdc._column_types(ledger) -%}
            {#- One of an older version. -#}
            {%- do run_query("alter table " ~ ledger ~ " add columns (events_erased bigint)") -%}
        {%- endif -%}
        {%- do run_query("insert into " ~ ledger ~ " (run_id, run_started_at, table_name, node, " ~ (columns | join(", "))
            ~ ", seconds) values " ~ (rows | join(", "))) -%}
    {%- endif -%}
{%- endmacro %}


{#- The runs of this invocation, from the checkpoints of the tables that it wrote. -#}
{% macro _recorded_runs(done) -%}
    {%- set runs = [] -%}
    {%- for node in cdc._managed_nodes() if node.unique_id in done and node.config.materialized != "view"
        and not cdc._is_parquet(node) -%}
        {%- set run = cdc._read_checkpoint(cdc._relation_of(node)).get("run") -%}
        {%- if run and run.id == invocation_id -%}
            {%- do runs.append(dict(run, node=node)) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(runs) }}
{%- endmacro %}


{% macro _ledger_counters() -%}
    {{ return(["read", "inserted", "updated", "deleted", "duplicate", "late", "tied", "unchanged", "quarantined", "left_out",
        "erased", "watermark_before", "watermark_after"]) }}
{%- endmacro %}
