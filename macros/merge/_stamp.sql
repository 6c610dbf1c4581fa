{#-
    How far a table has read is written into its own Delta commit, as user metadata, so that it can never be ahead of the
    rows. A stamp names its table: one that another table's write picked up from a shared session is ignored. A lost stamp
    only costs reading again, for every step gives the same result when repeated.
-#}

{% macro _write_stamp(relation, position) -%}
    {%- set stamp = {"cdc": relation | string} -%}
    {%- do stamp.update(position) -%}
    {%- do run_query("set spark.databricks.delta.commitInfo.userMetadata=" ~ tojson(stamp)) -%}
{%- endmacro %}


{#-
    The newest stamp of a table, and the table's version as `at`. The last commits nearly always hold the stamp; the whole log is asked
    only where they do not.
-#}
{% macro _read_stamp(relation) -%}
    {%- set at = {} -%}
    {%- for limit in [" limit 5", ""] -%}
        {%- for commit in run_query("describe history " ~ relation ~ limit) -%}
            {%- do at.setdefault("at", commit["version"]) -%}
            {%- set stamp = fromjson(commit["userMetadata"] or "{}", {}) -%}
            {%- if stamp is mapping and stamp.get("cdc") == relation | string -%}
                {%- do stamp.update(at) -%}
                {{ return(stamp) }}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(at) }}
{%- endmacro %}


{#- How often a table was written since a version. Upkeep is no writing: it moves rows, and changes none. -#}
{% macro _writes_since(relation, version) -%}
    {%- set writes = [] -%}
    {%- for commit in run_query("describe history " ~ relation ~ " limit 10") if commit["version"] > version -%}
        {%- if commit["operation"] not in ["OPTIMIZE", "REORG", "VACUUM START", "VACUUM END"] -%}
            {%- do writes.append(commit["version"]) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(writes | length) }}
{%- endmacro %}


{#- The newest version of a table. -#}
{% macro _table_version(relation) -%}
    {{ return(run_query("describe history " ~ relation ~ " limit 1")[0]["version"]) }}
{%- endmacro %}


{#- Folder of a table. Unlike `describe detail` this does not read the state of the table's log. -#}
{% macro _table_location(relation) -%}
    {%- for row in run_query("describe extended " ~ relation).rows if row[0] == "Location" -%}
        {{ return(row[1]) }}
    {%- endfor -%}
{%- endmacro %}


{#- The properties of a table, which unlike its detail cost no look at its files. -#}
{% macro _table_properties(relation) -%}
    {%- set properties = {} -%}
    {%- for row in run_query("show tblproperties " ~ relation).rows -%}
        {%- do properties.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {{ return(properties) }}
{%- endmacro %}
