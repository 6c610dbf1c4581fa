{#-
    The rows of the raw table. A typed one may lack former names and columns that the tables leave out: the names that it does not
    have are found outside of the lateral subquery, where they are NULL.
-#}
{% macro _raw_events(d, relation) -%}
    {%- set found = [] -%}
    {%- set looked_up = [] -%}
    {%- for column in (d.columns + d.left_out if d.traits.columns else []) if cdc._may_be_absent(d, column.name) -%}
        {%- do looked_up.append(cdc._latest_named(d, column.name) ~ " as " ~ cdc._raw_column(d, column.name)) -%}
        {%- for name in cdc._names_of(d, column.name) -%}{%- do found.append("null as " ~ cdc._quoted(name)) -%}{%- endfor -%}
    {%- endfor -%}
    {#- dbt's `--empty` hands in a subquery, which has no `_metadata`. -#}
    {%- set is_empty = relation is not string and relation.limit is not none and relation.limit == 0 -%}
    {#- In `from raw where (name)` Spark would read an alias with a column. -#}
    {%- set conditions = ["((" ~ d.where ~ "))"] if d.where else [] -%}
    {%- if is_empty -%}{%- do conditions.append("false") -%}{%- endif -%}
    {%- set rows -%}
select
    {#- A ChangeEvent's own names would clash with those of the raw table. -#}
    {{- "\n    *," if not d.payload or d.traits.json }}
    {%- for expression, name in cdc._beside_event(d).items() %}
    {{ expression }} as {{ name }},
    {%- endfor %}
    {%- for column in looked_up %}
    {{ column }},
    {%- endfor %}
    {{ cdc._payload(d) }} as __cdc_payload,
    {{ d.origin or "cast(null as string)" }} as __cdc_origin,
    {{ "cast(" ~ d.arrival ~ " as bigint)" if d.arrival else "cast(null as bigint)" }} as __cdc_arrived,
    {{ d.problem or "cast(null as string)" }} as __cdc_raw_problem
from {{ relation.render() if is_empty else relation }}
{%- if conditions %}
where {{ conditions | join(" and ") }}
{%- endif %}
    {%- endset -%}
    {%- if not looked_up -%}
        {{ return(rows) }}
    {%- endif -%}
select raw_rows.*
from (select {{ found | join(", ") }}) as absent_columns
cross join lateral (
    {{ rows | indent(4) }}
) as raw_rows
{%- endmacro %}


{#-
    Of a ChangeEvent in JSON the declared expressions that read columns beside it, such as Kafka's offset, with the names that
    `raw_events` has them by. Those that read the event use its own names, which need no `_message`.
-#}
{% macro _beside_event(d) -%}
    {%- set found = {} -%}
    {%- if d.payload and not d.traits.json -%}
        {%- set names = "(?i)\\b(_message|changetype|timestamp|columnnames|columnvalues|oldkeynames|oldkeyvalues)\\b" -%}
        {%- for expression in d.sequence_by + ([d.event_time] if d.event_time else []) -%}
            {%- set columns = modules.re.sub("(?i)'[^']*'|\\bas\\s+timestamp\\b", "", expression | string) -%}
            {%- if not modules.re.search(names, columns) -%}
                {%- do found.update({expression: "__cdc_beside_" ~ (found | length + 1)}) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(found) }}
{%- endmacro %}


{#- Whether a typed raw table may lack a column. A snapshot lacks those that were declared after it was taken. -#}
{% macro _may_be_absent(d, name) -%}
    {{ return(d.get("is_bootstrap") or name in d.renames or name in d.left_out | map(attribute="name") | list) }}
{%- endmacro %}


{#- The column of `raw_events` that holds a declared column of a typed raw table. -#}
{% macro _raw_column(d, name) -%}
    {{ return(cdc._quoted("__cdc_raw_" ~ name if cdc._may_be_absent(d, name) else name)) }}
{%- endmacro %}


{#- The time of the change as declared; none where it is not. Text would become the type of `dbt_valid_from`. -#}
{% macro _event_time(d) -%}
    {%- if not d.event_time -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set problem = "cdc: " ~ d.table ~ ": `event_time` (" ~ d.event_time ~ ") is text and no time."
        ~ " Write `try_cast(<expression> as timestamp)`." -%}
    {{ return("if(typeof(" ~ d.event_time ~ ") = 'string', raise_error(" ~ cdc._literal(problem) ~ "), " ~ d.event_time ~ ")") }}
{%- endmacro %}


{#- The event as text. JSON keeps all that the columns of a typed raw table hold: NULLs, microseconds, bytes, digits. -#}
{% macro _payload(d) -%}
    {%- if d.payload -%}
        {{ return("cast(" ~ cdc._quoted(d.payload) ~ " as string)") }}
    {%- endif -%}
    {{ return(cdc._as_json("struct(*)")) }}
{%- endmacro %}


{#- A struct as JSON, with NULLs and microseconds; instants in the session's time zone, or in another one. -#}
{% macro _as_json(struct, zone=none) -%}
    {{ return(
        "to_json(" ~ struct ~ ", map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
        ~ "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\""
        ~ (", 'timeZone', " ~ cdc._literal(zone) if zone else "") ~ "))"
    ) }}
{%- endmacro %}
