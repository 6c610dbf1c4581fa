{#-
    The hook of the embedded Spark's adapter that merges a batch of resolved events, with its checkpoint: what they were resolved with is
    the version of the table from before.
      written   the table that holds the batch
-#}
{% macro sparkcdc__write_batch(sql, written, batch) -%}
    {%- if not batch.get("checkpoint") -%}
        {{ return(dbt.default__write_batch(sql, written, batch)) }}
    {%- endif -%}
    {#- A merge of no rows makes no commit. -#}
    {%- if run_query("select 1 from " ~ written ~ " limit 1").rows | length -%}
        {%- set text = cdc._checkpoint_text(this, dict(batch.checkpoint, build=invocation_id)) -%}
        {%- if not adapter.write_changes(this | string, sql, batch.version, text, false, cdc._maintenance()) -%}
            {%- do cdc._refuse_other_writer(this, batch.version) -%}
        {%- endif -%}
    {%- endif -%}
    {%- do cdc._drop_left_over_batches(written) -%}
    {%- call noop_statement("main", "OK") -%}{{ sql }}{%- endcall -%}
{%- endmacro %}


{#- Batches of builds that died stay as tables; a build that goes on for a day is none that lives. -#}
{% macro _drop_left_over_batches(written) -%}
    {%- set pattern = modules.re.sub("__dbt_tmp_\\w+$", "__dbt_tmp_*", written.identifier) -%}
    {%- set found = run_query("show tables in " ~ cdc._quoted(written.schema) ~ " like " ~ cdc._literal(pattern)) -%}
    {%- for name in found.columns["tableName"].values() if name | lower != written.identifier | lower -%}
        {%- set left = written.incorporate(path={"identifier": name}) -%}
        {%- set changed = run_query("describe detail " ~ left)[0]["lastModified"] -%}
        {%- set now = modules.datetime.datetime.now(modules.pytz.utc) -%}
        {%- if (now - changed.replace(tzinfo=modules.pytz.utc)).days >= 1 -%}
            {%- do run_query("drop table if exists " ~ left) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}
