{#-
    Over few rows a statement costs Spark more to plan and compile than to compute: it is interpreted then, in one partition, as first
    planned. Of a large table Spark's own ways are kept, for what scans it.
      t.few      whether the run has few rows
      t.large    whether the table that it writes is large
-#}
{% macro _plan_rows(t, scans_table=false) -%}
    {%- set small = t.few and not (scans_table and t.large) -%}
    {%- do t.setdefault("planned_small", false) -%}
    {%- if small != t.planned_small -%}
        {%- for name, value in {
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
        }.items() -%}
            {%- do run_query("set " ~ name ~ "=" ~ value if small else "reset " ~ name) -%}
        {%- endfor -%}
        {%- do t.update({"planned_small": small}) -%}
    {%- endif -%}
{%- endmacro %}


{#- What follows in this session is planned as the profile says. -#}
{% macro _plan_as_ever(t) -%}
    {%- do t.update({"few": false}) -%}
    {%- do cdc._plan_rows(t) -%}
{%- endmacro %}


{#- Up to so many rows the work on them is less than planning it; so large a table is worth compiled scans. Both by bench/. -#}
{% macro _few_rows() -%}
    {{ return(20000) }}
{%- endmacro %}


{% macro _large_bytes() -%}
    {{ return(16 * 1024 * 1024) }}
{%- endmacro %}
