{#-
    The columns that the events of a raw table carry beside those that are declared, and the DDL that they tell of: what the source
    became since the declaration was written.
-#}
{% macro schema_drift(relation) -%}
    {{ return(adapter.dispatch("schema_drift", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__schema_drift(relation) -%}
    {%- if not execute -%}
        {{ return("select 1 as column_name") }}
    {%- endif -%}
    {%- set d = cdc._declaration(relation) -%}
with {% if d.traits.columns -%}
carried_columns as (
    select
        inline(array({{ cdc._raw_columns(relation) }})) as (_name, _type),
        cast(null as bigint) as _arrived
),
{%- else -%}
{{ cdc._decoded_events(dict(d, bootstrap=none), relation) }},

own_events as (
    select *
    from decoded_events
    {%- if d.source_table %}
    where {{ cdc._is_of_table(d) }}
    {%- endif %}
),

carried_columns as (
    select
        inline({{ cdc._stated_columns(d) }}) as (_name, _type),
        _arrived
    from own_events
),
{%- endif %}

known_columns as (
    select inline(array({{ cdc._known_columns(d) }})) as (column_name, _finding)
),

findings as (
    select
        coalesce(known_columns.column_name, carried_columns._name) as column_name,
        carried_columns._type as source_type,
        case
            when carried_columns._name is null and known_columns._finding = 'declared' then 'declared, and no event has it'
            else coalesce(known_columns._finding, 'not declared')
        end as finding,
        count(carried_columns._name) as events,
        min(carried_columns._arrived) as first_arrived,
        max(carried_columns._arrived) as last_arrived,
        cast(null as string) as ddl
    from carried_columns
    full outer join known_columns on carried_columns._name = known_columns.column_name
    group by all
)

select * from findings
where events > 0 or finding = 'declared, and no event has it'
{%- if not d.traits.columns %}
union all
select
    cast(null as string) as column_name,
    cast(null as string) as source_type,
    'DDL' as finding,
    count(*) as events,
    min(_arrived) as first_arrived,
    max(_arrived) as last_arrived,
    {{ cdc._ddl_text(d) }} as ddl
from own_events
where _cdc_operation = 'M' and {{ cdc._ddl_text(d) }} is not null
group by all
{%- endif %}
{%- endmacro %}


{#- Name and type of the columns of a raw table, as structs. -#}
{% macro _raw_columns(relation) -%}
    {%- set columns = [] -%}
    {%- for name, type in cdc._column_types(relation).items() -%}
        {%- do columns.append("struct(" ~ cdc._literal(name) ~ ", " ~ cdc._literal(type) ~ ")") -%}
    {%- endfor -%}
    {{ return(columns | join(", ")) }}
{%- endmacro %}


{#- The names that the declaration knows, and as what. -#}
{% macro _known_columns(d) -%}
    {%- set known = [] -%}
    {%- for column in d.columns -%}
        {%- do known.append([column.name, "declared"]) -%}
        {%- for former in d.renames.get(column.name, []) -%}
            {%- do known.append([former, "former name of " ~ column.name]) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for column in d.left_out + d.withheld -%}
        {%- do known.append([column.name, "left out"]) -%}
    {%- endfor -%}
    {%- set structs = [] -%}
    {%- for name, finding in known -%}
        {%- do structs.append("struct(" ~ cdc._literal(name) ~ ", " ~ cdc._literal(finding) ~ ")") -%}
    {%- endfor -%}
    {{ return(structs | join(", ")) }}
{%- endmacro %}


{#-
    The columns of an event with the types that the format states for them; where it states none, those of the JSON values. An
    array of structs of name and type.
-#}
{% macro _stated_columns(d) -%}
    {%- set image = "coalesce(_cdc_image, _cdc_before)" -%}
    {%- set seen -%}
        transform(map_entries({{ image }}), entry -> struct(entry.key as name, {{
            "cast(null as string)" if d.format == "change_event" else "schema_of_variant(entry.value)" }} as type))
    {%- endset -%}
    {%- if d.format == "wal2json_v1" -%}
        {%- set stated -%}
        flatten(transform(
            from_json(_payload, 'change array<struct<columnnames: array<string>, columntypes: array<string>>>').change,
            change -> transform(
                arrays_zip(change.columnnames, change.columntypes),
                pair -> struct(pair.columnnames as name, pair.columntypes as type)
            )
        ))
        {%- endset -%}
    {%- elif d.format == "wal2json_v2" -%}
        {%- set stated = "from_json(_payload, 'columns array<struct<name: string, type: string>>').columns" -%}
    {%- elif d.format == "debezium" -%}
        {%- set field = "field: string, name: string, type: string" -%}
        {%- set stated -%}
        transform(
            get(filter(
                from_json(_payload, 'schema struct<fields: array<struct<{{ field }}, fields: array<struct<{{ field }}>>>>>').schema.fields,
                image -> image.field in ('after', 'before')
            ), 0).fields,
            field -> struct(field.field as name, coalesce(field.name, field.type) as type)
        )
        {%- endset -%}
    {%- elif d.format == "dms" and d.payload -%}
        {%- set stated -%}
        transform(
            map_entries(from_json(
                _payload, 'control struct<`table-def`: struct<columns: map<string, struct<type: string>>>>'
            ).control.`table-def`.columns),
            entry -> struct(entry.key as name, entry.value.type as type)
        )
        {%- endset -%}
    {%- elif d.format == "canal" -%}
        {%- set stated -%}
        transform(
            map_entries(from_json(_payload, 'mysqlType map<string, string>').mysqlType),
            entry -> struct(entry.key as name, entry.value as type)
        )
        {%- endset -%}
    {%- elif d.format == "maxwell" -%}
        {%- set stated = "from_json(_payload, 'def struct<columns: array<struct<name: string, type: string>>>').def.columns" -%}
    {%- endif -%}
    {{ return("coalesce(" ~ stated ~ ", " ~ seen ~ ")" if stated else seen) }}
{%- endmacro %}


{#- The DDL that a record of the source tells of; NULL of other records. -#}
{% macro _ddl_text(d) -%}
    {%- if d.format == "dms" -%}
        {{ return("if(get_json_object(_payload, '$.metadata.record-type') = 'control', _payload, null)") }}
    {%- endif -%}
    {%- set texts = [] -%}
    {%- for path in ["$.sql", "$.ddl", "$.payload.ddl"] -%}
        {%- do texts.append("get_json_object(_payload, '" ~ path ~ "')") -%}
    {%- endfor -%}
    {{ return("coalesce(" ~ (texts | join(", ")) ~ ")") }}
{%- endmacro %}
