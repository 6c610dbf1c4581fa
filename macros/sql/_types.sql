{#-
    Types as Spark writes them: `struct<a:int,b:array<string>>`.

    Name to type of the columns of a table, or of a query.
-#}
{% macro _column_types(of) -%}
    {%- set query = "describe query " ~ (of if of is string else "select * from " ~ of) -%}
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


{#- Name to type of the fields of a struct; none of any other type. -#}
{% macro _struct_fields(type) -%}
    {%- if not (type | lower).startswith("struct<") -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set at = {"depth": 0, "text": ""} -%}
    {%- set fields = {} -%}
    {%- for letter in type[7:-1] ~ "," -%}
        {%- if letter == "," and at.depth == 0 -%}
            {%- set parts = at.text.split(":", 1) -%}
            {%- do fields.update({parts[0] | trim: parts[1] | trim}) -%}
            {%- do at.update({"text": ""}) -%}
        {%- else -%}
            {%- do at.update({
                "depth": at.depth + (1 if letter in "<(" else -1 if letter in ">)" else 0),
                "text": at.text ~ letter,
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


{#-
    What brings a type to another in place: appends to `changes.added` and `changes.widened` what ALTER TABLE takes, and to
    `changes.problems` the places for which there is nothing. Fields that are no longer wanted stay.
-#}
{% macro _type_changes(place, known, wanted, changes) -%}
    {%- set known_fields = cdc._struct_fields(known) -%}
    {%- set wanted_fields = cdc._struct_fields(wanted) -%}
    {%- if known | lower == wanted | lower -%}
    {%- elif known_fields is not none and wanted_fields is not none -%}
        {%- set there = cdc._by_lower_name(known_fields) -%}
        {%- for name, type in wanted_fields.items() -%}
            {%- set inner = place ~ "." ~ cdc._quoted(name) -%}
            {%- if name | lower in there -%}
                {%- do cdc._type_changes(inner, there[name | lower], type, changes) -%}
            {%- else -%}
                {%- do changes.added.append(inner ~ " " ~ type) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- elif cdc._item_type(known) is not none and cdc._item_type(wanted) is not none -%}
        {%- do cdc._type_changes(place ~ ".element", cdc._item_type(known), cdc._item_type(wanted), changes) -%}
    {%- elif cdc._is_wider(known | lower, wanted | lower) -%}
        {%- do changes.widened.append(place ~ " type " ~ wanted) -%}
    {%- else -%}
        {%- do changes.problems.append(place) -%}
    {%- endif -%}
{%- endmacro %}


{#- Whether Delta changes a type to another in place. https://docs.delta.io/latest/delta-type-widening.html -#}
{% macro _is_wider(known, wanted) -%}
    {%- set integers = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20} -%}
    {%- set decimal = modules.re.match("decimal\\((\\d+), ?(\\d+)\\)", wanted) -%}
    {%- set known_decimal = modules.re.match("decimal\\((\\d+), ?(\\d+)\\)", known) -%}
    {%- if known in integers and wanted in integers -%}
        {{ return(integers[wanted] > integers[known]) }}
    {%- elif known in integers and decimal -%}
        {{ return(decimal.group(1) | int - decimal.group(2) | int >= integers[known]) }}
    {%- elif known_decimal and decimal -%}
        {%- set scale = decimal.group(2) | int - known_decimal.group(2) | int -%}
        {{ return(scale >= 0 and decimal.group(1) | int - known_decimal.group(1) | int >= scale) }}
    {%- endif -%}
    {{ return(wanted in {
        "tinyint": ["double"], "smallint": ["double"], "int": ["double"], "float": ["double"], "date": ["timestamp_ntz"],
    }.get(known, [])) }}
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
