{#-
    How far a table has read is written into its own Delta commit, as user metadata, so that it can never be ahead of the
    rows. A stamp names its table: one that another table's write picked up from a shared session is ignored. A lost stamp
    only costs reading again, for every step gives the same result when repeated.
-#}

{% macro _write_stamp(relation, what, position) -%}
    {%- set setting = "spark.databricks.delta.commitInfo.userMetadata" -%}
    {%- if position is none -%}
        {%- do run_query("reset " ~ setting) -%}
    {%- else -%}
        {%- do run_query("set " ~ setting ~ "=" ~ tojson({"cdc": relation | string, what: position})) -%}
    {%- endif -%}
{%- endmacro %}


{#- The newest stamp of a table. The last commits nearly always hold it; the whole log is asked only where they do not. -#}
{% macro _read_stamp(relation, what) -%}
    {%- for limit in [" limit 5", ""] -%}
        {%- for commit in run_query("describe history " ~ relation ~ limit) -%}
            {%- set stamp = fromjson(commit["userMetadata"] or "{}", {}) -%}
            {%- if stamp is mapping and stamp.get("cdc") == relation | string and what in stamp -%}
                {{ return(stamp[what]) }}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- Identity and properties of a Delta table. -#}
{% macro _table_detail(relation) -%}
    {%- set detail = run_query("describe detail " ~ relation)[0] -%}
    {{ return({"id": detail["id"], "properties": fromjson(detail["properties"] or "{}", {})}) }}
{%- endmacro %}
