{#-
    An intermediate result: a relation that later statements of the same node read, and nobody else. Without it, each of them would
    decode the events, or look up the rows of the table, again.
      name          what it holds; a later step of the same node and name may take its place
      few           whether it has few rows
      scans_table   whether its query reads the table of `spec`: where that is large, Spark compiles the query
    Returns `relation`, its name in SQL, and `rows`, what the adapter holds of it in memory; none where it must be asked in SQL.
-#}
{% macro _step(spec, name, sql, few=false, scans_table=false) -%}
    {{ return(adapter.dispatch("step", "cdc")(spec, name, sql, few, scans_table)) }}
{%- endmacro %}


{#- Plain Parquet in a folder below the table's, which VACUUM removes like any file that the table does not own. -#}
{% macro default__step(spec, name, sql, few, scans_table) -%}
    {%- set folder = cdc._table_location(spec.relation) ~ "/cdc_steps/" ~ invocation_id ~ "/" ~ name -%}
    {%- set view = "cdc_" ~ local_md5(invocation_id ~ spec.relation)[:16] ~ "_" ~ name -%}
    {%- call statement("write_step") -%}
        insert overwrite directory {{ cdc._literal(folder) }} using parquet {{ sql }}
    {%- endcall -%}
    {%- do run_query("create or replace temporary view " ~ view ~ " using parquet options (path " ~ cdc._literal(folder) ~ ")") -%}
    {{ return({"relation": view, "rows": none}) }}
{%- endmacro %}


{#- Rows in the session: no file is written, listed or opened. -#}
{% macro sparkcdc__step(spec, name, sql, few, scans_table) -%}
    {{ return(adapter.make_step(name, sql, few, few and not (scans_table and spec.is_large))) }}
{%- endmacro %}


{#- Lets go of what a node's steps hold. -#}
{% macro _drop_steps() -%}
    {{ return(adapter.dispatch("drop_steps", "cdc")()) }}
{%- endmacro %}


{% macro default__drop_steps() -%}{%- endmacro %}


{% macro sparkcdc__drop_steps() -%}
    {%- do adapter.drop_steps() -%}
{%- endmacro %}


{% macro _table_location(relation) -%}
    {{ return(run_query("describe detail " ~ relation)[0]["location"]) }}
{%- endmacro %}
