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


{#- Writes a stamp by itself, where there is nothing else to write. Delta makes no commit of a write without rows. -#}
{% macro _commit_stamp(relation, position) -%}
    {%- do cdc._write_stamp(relation, position) -%}
    {%- do run_query("alter table " ~ relation ~ " set tblproperties ('cdc.stamped' = " ~ cdc._literal(invocation_id) ~ ")") -%}
{%- endmacro %}


{#-
    The newest stamp of a table, and the table's version as `at`. The last commits nearly always hold the stamp; the whole log is asked
    only where they do not.
-#}
{% macro _read_stamp(relation) -%}
    {%- set at = {} -%}
    {%- for limit in [5, none] -%}
        {%- for commit in cdc._newest_commits(relation, limit) -%}
            {%- do at.setdefault("at", commit["version"]) -%}
            {%- set stamp = fromjson(commit["userMetadata"] or "{}", {}) -%}
            {%- if stamp is mapping and stamp.get("cdc") == relation | string -%}
                {%- do stamp.update(at) -%}
                {{ return(stamp) }}
            {%- elif commit["operation"] == "RESTORE" -%}
                {{ return(at) }}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(at) }}
{%- endmacro %}


{#- The newest commits of a table, the last one first: version, operation and userMetadata. -#}
{% macro _newest_commits(relation, limit=none) -%}
    {{ return(adapter.dispatch("newest_commits", "cdc")(relation, limit)) }}
{%- endmacro %}


{% macro default__newest_commits(relation, limit) -%}
    {{ return(run_query("describe history " ~ relation ~ (" limit " ~ limit if limit else "")).rows) }}
{%- endmacro %}


{% macro sparkcdc__newest_commits(relation, limit) -%}
    {%- set commits = adapter.newest_commits(relation | string, limit) if limit else none -%}
    {{ return(cdc.default__newest_commits(relation, limit) if commits is none else commits) }}
{%- endmacro %}


{#-
    How often a table was written since a version; upkeep is no writing. Notes the newest version, for the models that read the table
    in this run.
-#}
{% macro _writes_since(relation, version) -%}
    {%- set writes = [] -%}
    {%- set commits = cdc._newest_commits(relation, 10) -%}
    {%- for commit in commits if commit["version"] > version -%}
        {%- if commit["operation"] not in cdc._upkeep() -%}
            {%- do writes.append(commit["version"]) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do cdc._note_version(relation, commits[0]["version"]) -%}
    {{ return(writes | length) }}
{%- endmacro %}


{#- Operations that move rows, and change none. -#}
{% macro _upkeep() -%}
    {{ return(["OPTIMIZE", "REORG", "VACUUM START", "VACUUM END"]) }}
{%- endmacro %}


{#- What this run knows of a table that it brought up to date, kept in the graph, which all its nodes share. -#}
{% macro _note_version(relation, version, few=none) -%}
    {%- set known = graph.setdefault("cdc_versions", {}).setdefault(invocation_id ~ relation, {}) -%}
    {%- do known.update({"version": version}) -%}
    {%- if few is not none -%}{%- do known.update({"few": few}) -%}{%- endif -%}
{%- endmacro %}


{% macro _noted(relation) -%}
    {{ return(graph.get("cdc_versions", {}).get(invocation_id ~ relation, {})) }}
{%- endmacro %}


{#- The newest version of a table. -#}
{% macro _table_version(relation) -%}
    {{ return(cdc._newest_commits(relation, 1)[0]["version"]) }}
{%- endmacro %}


{#- Folder and size of a table, for a run that writes it: its log's state is read then in any case. -#}
{% macro _table_detail(relation) -%}
    {%- set detail = adapter.dispatch("delta_detail", "cdc")(relation) -%}
    {{ return({"location": detail["location"], "large": detail["sizeInBytes"] > cdc._large_bytes()}) }}
{%- endmacro %}


{% macro default__delta_detail(relation) -%}
    {{ return(run_query("describe detail " ~ relation)[0]) }}
{%- endmacro %}


{% macro sparkcdc__delta_detail(relation) -%}
    {{ return(adapter.delta_detail(relation | string) or cdc.default__delta_detail(relation)) }}
{%- endmacro %}


{#- The properties of a table, which unlike its detail cost no look at its files. -#}
{% macro _table_properties(relation) -%}
    {%- set properties = {} -%}
    {%- for row in run_query("show tblproperties " ~ relation).rows -%}
        {%- do properties.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {{ return(properties) }}
{%- endmacro %}
