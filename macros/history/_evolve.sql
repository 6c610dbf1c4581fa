{#-
    Brings the columns of a table that is there to what is declared: an added column is added, a widened type widened, both in the table's
    metadata only. A dropped column stays, null from there on. Any other change of a type is refused before anything is written.
      columns   name to type
      images    names of those that `_events` keeps an image of, too
-#}
{% macro _evolve(relation, columns, images=[]) -%}
    {%- set there = {} -%}
    {%- for column in adapter.get_columns_in_relation(relation) -%}
        {%- do there.update({column.name | lower: column.dtype | lower}) -%}
    {%- endfor -%}
    {%- set added = [] -%}
    {%- set widened = [] -%}
    {%- set problems = [] -%}
    {%- for name, type in columns.items() -%}
        {%- set places = [cdc._quoted(name)] + (["_events.element._image." ~ cdc._quoted(name)] if name in images else []) -%}
        {%- set known = there.get(name | lower) -%}
        {%- if known is none -%}
            {%- for place in places -%}{%- do added.append(place ~ " " ~ type) -%}{%- endfor -%}
        {%- elif known != type | lower and cdc._is_wider(known, type | lower) -%}
            {%- for place in places -%}{%- do widened.append(place ~ " type " ~ type) -%}{%- endfor -%}
        {%- elif known != type | lower -%}
            {%- do problems.append(
                relation.schema ~ "." ~ relation.identifier ~ ": column `" ~ name ~ "` is " ~ known ~ " and is now declared as " ~ type
                ~ ", which Delta cannot widen it to. Take the change back: values that do not fit are quarantined, and"
                ~ " `dbt run-operation cdc_replay` reads them again. Or build the table and what reads it anew from the raw events,"
                ~ " with --full-refresh after dropping it.") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
    {%- endif -%}
    {%- if added -%}
        {%- do run_query("alter table " ~ relation ~ " add columns (" ~ (added | join(", ")) ~ ")") -%}
    {%- endif -%}
    {%- if widened -%}
        {%- do run_query("alter table " ~ relation ~ " set tblproperties ('delta.enableTypeWidening' = 'true')") -%}
        {%- for change in widened -%}
            {%- do run_query("alter table " ~ relation ~ " alter column " ~ change) -%}
        {%- endfor -%}
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


{#-
    Brings a table to the columns that its events have, and the traits to those of the table: its order is that of the images too, and a
    column that was dropped from the declaration is NULL in every new event.
-#}
{% macro _evolve_to(t, relation, images) -%}
    {%- set columns = {} -%}
    {%- for name in t.key_columns + t.value_columns -%}
        {%- do columns.update({name: t.types[name]}) -%}
    {%- endfor -%}
    {%- do cdc._evolve(relation, columns, images) -%}
    {%- set hidden = cdc._history_columns({"key_columns": t.key_columns, "value_columns": []})
        + ["_cdc_updated_at", "_cdc_deleted_at"] + (t.declaration.partition_by.keys() | list if t.declaration else []) -%}
    {%- set names = t.value_columns | map("lower") | list -%}
    {%- set values = [] -%}
    {%- set dropped = [] -%}
    {%- for column in adapter.get_columns_in_relation(relation) if column.name not in hidden -%}
        {%- if column.name | lower not in names -%}
            {%- do dropped.append(column.name) -%}
        {%- endif -%}
        {%- do values.append(column.name) -%}
        {%- do t.types.update({column.name: column.dtype}) -%}
    {%- endfor -%}
    {%- do t.update({
        "tracked": values if t.tracked == t.value_columns else t.tracked,
        "value_columns": values,
        "dropped": dropped,
    }) -%}
{%- endmacro %}
