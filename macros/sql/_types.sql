{#-
    Types as Spark writes them: `struct<a:int,b:array<string>>`. They are read here, although the adapter's `types.parse`
    could, because plain dbt-spark has no such method.

    Name to type of the columns of a table, or of a query.
-#}
{% macro _column_types(of) -%}
    {{ return(adapter.dispatch("column_types", "cdc")(of) if of is string else cdc._table_types(of)) }}
{%- endmacro %}


{#- Name to type of the columns of a table. -#}
{% macro _table_types(table) -%}
    {{ return(adapter.dispatch("table_types", "cdc")(table | string)) }}
{%- endmacro %}


{% macro default__table_types(table) -%}
    {{ return(adapter.dispatch("column_types", "cdc")("select * from " ~ table)) }}
{%- endmacro %}


{% macro sparkcdc__table_types(table) -%}
    {{ return(adapter.table_types(table)) }}
{%- endmacro %}


{% macro sparkcdc__column_types(query) -%}
    {{ return(adapter.query_types(query)) }}
{%- endmacro %}


{% macro default__column_types(query) -%}
    {%- set query = "describe query " ~ query -%}
    {%- set types = {} -%}
    {%- for row in run_query(query).rows -%}{%- do types.update({row[0]: row[1]}) -%}{%- endfor -%}
    {#- Spark leaves out the end of a long struct. -#}
    {%- if " more fields>" in (types.values() | join) -%}
        {%- do run_query("set spark.sql.debug.maxToStringFields=1000000") -%}
        {%- for row in run_query(query).rows -%}{%- do types.update({row[0]: row[1]}) -%}{%- endfor -%}
        {%- do run_query("reset spark.sql.debug.maxToStringFields") -%}
    {%- endif -%}
    {{ return(types) }}
{%- endmacro %}


{#- Name to type of the fields of a struct, in quotes or not; none of any other type. The type of a field without a colon is "". -#}
{% macro _struct_fields(type) -%}
    {%- if not (type | lower).startswith("struct<") -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set at = {"depth": 0, "name": none, "text": "", "is_quoted": false} -%}
    {%- set fields = {} -%}
    {%- for letter in type[7:-1] ~ "," -%}
        {%- set is_mark = at.depth == 0 and not at.is_quoted -%}
        {%- if letter == ":" and is_mark and at.name is none -%}
            {%- do at.update({"name": at.text | trim, "text": ""}) -%}
        {%- elif letter == "," and is_mark -%}
            {%- set name = at.text | trim if at.name is none else at.name -%}
            {%- set plain = name[1:-1] | replace("``", "`") if name.startswith("`") else name -%}
            {%- do fields.update({plain: "" if at.name is none else at.text | trim}) -%}
            {%- do at.update({"name": none, "text": ""}) -%}
        {%- else -%}
            {%- set step = 0 if at.is_quoted else 1 if letter in "<(" else -1 if letter in ">)" else 0 -%}
            {%- do at.update({
                "depth": at.depth + step,
                "text": at.text ~ letter,
                "is_quoted": at.is_quoted != (letter == "`"),
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(fields) }}
{%- endmacro %}


{#- The same types by names in lower case, for Spark's names ignore case. -#}
{% macro _by_lower_name(types) -%}
    {%- set lowered = {} -%}
    {%- for name, type in types.items() -%}{%- do lowered.update({name | lower: type}) -%}{%- endfor -%}
    {{ return(lowered) }}
{%- endmacro %}


{#- The type of an array's elements, whatever they are; none of any other type. -#}
{% macro _item_type(type) -%}
    {{ return((type | trim)[6:-1] | trim if (type | lower).startswith("array<") else none) }}
{%- endmacro %}


{#- A value of one type as another one that has the same fields and more: those are NULL, in the order of the other. -#}
{% macro _fitted(value, given, wanted, depth=0) -%}
    {%- set given_fields = cdc._struct_fields(given) -%}
    {%- if given | lower == wanted | lower -%}
        {{ return(value) }}
    {%- elif given_fields is not none -%}
        {%- set there = cdc._by_lower_name(given_fields) -%}
        {%- set fields = [] -%}
        {%- for name, type in cdc._struct_fields(wanted).items() -%}
            {%- set known = there.get(name | lower) -%}
            {%- set inner = value ~ "." ~ cdc._quoted(name) -%}
            {%- do fields.append((cdc._fitted(inner, known, type, depth) if known else "cast(null as " ~ type ~ ")")
                ~ " as " ~ cdc._quoted(name)) -%}
        {%- endfor -%}
        {{ return("if(" ~ value ~ " is null, null, struct(" ~ (fields | join(", ")) ~ "))") }}
    {%- elif cdc._item_type(given) is not none -%}
        {%- set item = "item_" ~ depth -%}
        {{ return("transform(" ~ value ~ ", " ~ item ~ " -> "
            ~ cdc._fitted(item, cdc._item_type(given), cdc._item_type(wanted), depth + 1) ~ ")") }}
    {%- endif -%}
    {{ return("cast(" ~ value ~ " as " ~ wanted ~ ")") }}
{%- endmacro %}
