{#-
    The snapshot that a table starts from. What the source says under `bootstrap` holds for those of its tables that have a
    `bootstrap` of their own. None where there is none.
-#}
{% macro _declared_bootstrap(shared, own) -%}
    {%- set given = own.get("bootstrap") -%}
    {%- if given is mapping and shared.get("bootstrap") is mapping -%}
        {{ return(dict(shared.bootstrap, **given)) }}
    {%- endif -%}
    {{ return(given) }}
{%- endmacro %}


{#- Everything that is wrong with `bootstrap` as far as the declaration tells. -#}
{% macro _bootstrap_problems(d, at) -%}
    {%- set b = d.bootstrap -%}
    {%- set at = at ~ "`bootstrap`" -%}
    {%- set problems = [] -%}
    {%- if b is none -%}
        {{ return(problems) }}
    {%- elif b is not mapping -%}
        {{ return([at ~ " is `" ~ b ~ "`. Write `{from: <relation or files>, position: <SQL expression>}`."]) }}
    {%- endif -%}
    {%- set known = ["from", "position", "time", "columns", "stream_from"] -%}
    {%- for option in b if option not in known -%}
        {%- do problems.append(at ~ ": unknown option `" ~ option ~ "`. The options are " ~ (known | join(", ")) ~ ".") -%}
    {%- endfor -%}
    {%- do problems.extend(cdc._bootstrap_from_problems(b.get("from"), at)) -%}
    {%- for option in ["position", "stream_from"] -%}
        {%- set given = b.get(option) -%}
        {%- if given is none -%}
            {%- if option == "position" -%}
                {%- do problems.append(at
                    ~ ": no `position`. Name the position of the snapshot in the stream: a value, or the column that holds it,"
                    ~ " as an SQL expression; a list for an order of several parts.") -%}
            {%- endif -%}
        {%- elif given is mapping or given is boolean or given == [] or given == "" -%}
            {%- do problems.append(at ~ ": `" ~ option ~ "` is `" ~ given ~ "`. Write an SQL expression, or a list of them.") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if d.traits -%}
        {%- if cdc._has_event_time(d) and not b.get("time") -%}
            {%- do problems.append(at
                ~ ": no `time`. Events of this table have a time; give the snapshot's as an SQL expression, such as"
                ~ " `timestamp '2026-01-31 12:00:00Z'`.") -%}
        {%- elif b.get("time") and not cdc._has_event_time(d) -%}
            {%- do problems.append(at ~ ": `time`, and events of this table have none. Remove it, or declare `event_time`.") -%}
        {%- endif -%}
    {%- endif -%}
    {%- set columns = b.get("columns") or {} -%}
    {%- if columns is not mapping -%}
        {%- do problems.append(at ~ ": `columns` is `" ~ columns ~ "`. Write `{<declared column>: <SQL expression>}`.") -%}
    {%- else -%}
        {%- set declared = (d.columns + d.left_out + d.withheld) | map(attribute="name") | map("lower") | list -%}
        {%- for name in columns if name | lower not in declared -%}
            {%- do problems.append(at ~ ": `columns` names the column `" ~ name
                ~ "`, which is not declared. Declare it with its data_type, or correct the name.") -%}
        {%- endfor -%}
    {%- endif -%}
    {#- Both are stored in the clear, in the copy's one row and in the tables. -#}
    {%- for option in ["position", "time"] -%}
        {%- for name in (d.mask if d.mask is mapping else {}) -%}
            {%- for expression in cdc._parts(b.get(option)) if modules.re.search("(?i)(?<!\\w)" ~ modules.re.escape(name)
                ~ "(?!\\w)", expression | string) -%}
                {%- do problems.append(at ~ ": `" ~ option ~ "` (" ~ expression ~ ") reads the masked column `" ~ name
                    ~ "`, and tables would show its value. Use another column, or do not mask this one.") -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{#- What is wrong with where a snapshot is read. -#}
{% macro _bootstrap_from_problems(given, at) -%}
    {%- set problems = [] -%}
    {%- set remedy = " Name a table or view, or write `{format: parquet, path: <folder>}`." -%}
    {%- if not given -%}
        {%- do problems.append(at ~ ": no `from`." ~ remedy) -%}
    {%- elif given is mapping -%}
        {%- for option in given if option not in ["format", "path", "schema", "options"] -%}
            {%- do problems.append(at ~ ": unknown option `" ~ option
                ~ "` of `from`. The options are format, path, schema, options.") -%}
        {%- endfor -%}
        {%- if not given.get("format") or not modules.re.fullmatch("[A-Za-z][\\w.]*", given.format | string) -%}
            {%- do problems.append(at ~ ": `from` has the format `" ~ given.get("format", "")
                ~ "`. Name one that Spark reads, such as parquet, csv or json.") -%}
        {%- elif not given.get("path") and given.format | lower in ["parquet", "csv", "json", "orc", "avro", "text", "delta"] -%}
            {%- do problems.append(at ~ ": `from` has no `path`. Name the folder or file.") -%}
        {%- endif -%}
        {%- if given.get("options") and given.options is not mapping -%}
            {%- do problems.append(at ~ ": `options` of `from` is `" ~ given.options
                ~ "`. Write `{<option of Spark's reader>: <value>}`.") -%}
        {%- else -%}
            {%- for name in given.get("options") or {} if modules.re.search("(?i)password|secret|token|access.?key",
                name | string) -%}
                {%- do problems.append(at ~ ": `options` of `from` has `" ~ name
                    ~ "`, and dbt writes declarations to target/manifest.json."
                    ~ " Give secrets to Spark in the profile (`server_side_parameters`), from the environment.") -%}
            {%- endfor -%}
        {%- endif -%}
    {%- elif given is not string -%}
        {%- do problems.append(at ~ ": `from` is `" ~ given ~ "`." ~ remedy) -%}
    {%- endif -%}
    {{ return(problems) }}
{%- endmacro %}


{#- What may be one expression or a list of them, as a list. -#}
{% macro _parts(value) -%}
    {%- if value is none or value is undefined -%}
        {{ return([]) }}
    {%- endif -%}
    {{ return(value | list if value is sequence and value is not string and value is not mapping else [value]) }}
{%- endmacro %}
