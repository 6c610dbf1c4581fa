{#-
    One look at what arrived since the last one: up to where it goes (`read_to`), from where (`read_from`) and how many raw rows
    it is (`raw_rows`), or how many events of the resolver (`events`). It asks the raw table where that is declared: there it is a matter of a few files' columns, not of
    decoding. Rows that were appended with an arrival that was read already are read as well, where the log tells of them.
-#}
{% macro _new_data(spec, read_from, raw_version, is_part, looks=3) -%}
    {%- set d = none if spec.follows else spec.declaration -%}
    {%- if d -%}
        {%- set is_asked = none not in [read_from, raw_version] -%}
        {%- set appended = cdc._appended(d, read_from, raw_version) if is_asked else none -%}
        {#- Of a load that goes on in parts the log of later commits tells only what came behind it. -#}
        {%- if appended and not appended.is_behind(read_from) and not is_part -%}
            {{ return({
                "read_from": read_from, "read_to": appended.highest, "raw_rows": appended.rows, "raw_version": appended.version
            }) }}
        {%- endif -%}
        {%- set asked_from, asked_since = read_from, raw_version -%}
        {%- set raw_version = cdc._raw_version(d) -%}
        {#- Again, for what came meanwhile belongs to this version, which the next run looks at no more. -#}
        {%- set appended = cdc._appended(d, asked_from, asked_since) if is_asked else none -%}
        {%- set is_behind = appended and appended.is_behind(read_from) -%}
        {%- set read_from = appended.lowest - 1 if is_behind else read_from -%}
        {%- set asked = "select max(" ~ (d.arrival or "null") ~ "), count(*) " ~ cdc._from_new_rows(d, read_from) -%}
        {%- set found = run_query(asked).rows[0] -%}
        {%- if cdc._raw_version(d) != raw_version and looks > 1 -%}
            {#- By this version, what was appended meanwhile would come behind what was read, and be read again. Where commits never
                pause, that is what happens. -#}
            {{ return(cdc._new_data(spec, asked_from, asked_since, is_part, looks - 1)) }}
        {%- endif -%}
        {%- set newest = cdc._place(found[0], d) -%}
        {%- set reads_snapshot = read_from is none or read_from < cdc._before_arrivals() -%}
        {%- set raw_rows = found[1] + (cdc._bootstrap_rows(d) if reads_snapshot else 0) -%}
        {{ return({"read_from": read_from, "read_to": newest, "raw_rows": raw_rows, "raw_version": raw_version}) }}
    {%- elif spec.follows or "_arrived" in spec.types -%}
        {%- set found = run_query("select max(" ~ spec.arrival ~ "), count(*) from (" ~ spec.events_sql ~ ") as arrivals where "
            ~ cdc._is_new_row(spec.arrival, read_from)).rows[0] -%}
        {{ return({
            "read_from": read_from, "read_to": found[0], "raw_rows": none, "events": found[1] if spec.follows else none,
            "raw_version": none,
        }) }}
    {%- endif -%}
    {{ return({"read_from": read_from, "read_to": none, "raw_rows": none, "raw_version": none}) }}
{%- endmacro %}


{#- What was appended to a raw table since a version, by the statistics of its files; none where a query has to tell. -#}
{% macro _appended(d, read_from, raw_version) -%}
    {{ return(adapter.dispatch("appended", "cdc")(d, read_from, raw_version)) }}
{%- endmacro %}


{% macro default__appended(d, read_from, raw_version) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__appended(d, read_from, raw_version) -%}
    {%- set partition = cdc._landed_partition(d) -%}
    {%- set in_log = cdc._is_plain_name(d.arrival) and (partition or not d.where) and not d.arrival_overlap -%}
    {{ return(adapter.appended(d.relation, raw_version, d.arrival, read_from, partition) if in_log else none) }}
{%- endmacro %}


{#- The partition of a raw table that a landed table is: the column, and its value. Empty for others. -#}
{% macro _landed_partition(d) -%}
    {%- set found = modules.re.fullmatch("_table = '([^'\\\\]+)'", d.where or "") if d.landed else none -%}
    {{ return(["_table", found.group(1)] if found else []) }}
{%- endmacro %}


{#- Whether an expression is a column, whose statistics the log has. -#}
{% macro _is_plain_name(expression) -%}
    {{ return(modules.re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", expression | string) is not none) }}
{%- endmacro %}


{#- The version of a raw table before a run looks at it; none where nobody can tell without a query. -#}
{% macro _raw_version(d) -%}
    {{ return(adapter.dispatch("raw_version", "cdc")(d)) }}
{%- endmacro %}


{% macro default__raw_version(d) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__raw_version(d) -%}
    {{ return(adapter.logged_version(d.relation)) }}
{%- endmacro %}
