{#-
    The identity of an event: what it did, where, and the values that it carried. It outlives changes of the declaration. Each
    value goes in under the column's oldest name and as it was given, not as its type of today; a column that the event says
    nothing of adds nothing, and one that the tables leave out goes in as before.
      is_computed   whether the expression is to be computed, and not to be compared: tables keep a hash of its text, which must not
                    change where its values do not
-#}
{% macro _event_hash(d, is_computed=true) -%}
    {%- set by_oldest_name = {} -%}
    {%- for column in cdc._hashed_columns(d) -%}
        {%- do by_oldest_name.update({([column.name] + d.renames.get(column.name, [])) | last: column}) -%}
    {%- endfor -%}
    {%- set parts = ["_op", "_seq"] -%}
    {%- for oldest, column in by_oldest_name | dictsort(case_sensitive=true) -%}
        {%- set given = cdc._given(column.name) -%}
        {%- set is_said = cdc._said(column.name) if column in d.left_out
            else "not array_contains(_unset, " ~ cdc._literal(column.name) ~ ")" -%}
        {%- set absent_is_null = d.traits.columns or d.traits.absent == "null" -%}
        {%- set says_null = "" if absent_is_null else " or (_op in ('I', 'U') and " ~ is_said
            ~ (" and not _cdc_is_whole" if d.format == "debezium") ~ ")" -%}
        {%- do parts.append("case when " ~ given ~ " is not null" ~ says_null ~ " then " ~ cdc._literal(oldest) ~ " end") -%}
        {%- do parts.append(cdc._widest("try_cast(" ~ given ~ " as " ~ column.type ~ ")" if column in d.left_out
            else cdc._quoted(column.name), cdc._table_type(column), is_computed and column not in d.left_out) if d.traits.columns or column.mask else given) -%}
    {%- endfor -%}
    {%- for key in d.key_columns if not d.keyless -%}
        {%- set column = d.columns | selectattr("name", "equalto", key) | first -%}
        {%- do parts.append(cdc._widest(cdc._quoted("_old_" ~ key), cdc._table_type(column))) -%}
    {%- endfor -%}
    {%- if d.get("is_bootstrap") and d.keyless -%}
        {#- Equal rows of a snapshot are as many rows: each has a place of its own. -#}
        {%- do parts.append("_origin") -%}
    {%- endif -%}
    {{ return("xxhash64(" ~ (parts | join(", ")) ~ ")") }}
{%- endmacro %}


{#- The declared columns, those that the tables leave out among them. -#}
{% macro _hashed_columns(d) -%}
    {%- set columns = d.columns | list -%}
    {{ return(columns + d.left_out) }}
{%- endmacro %}


{#-
    A value that hashes the same after its type was widened.
      is_column   whether the value is a mere column, which may be named several times
-#}
{% macro _widest(value, type, is_column=false) -%}
    {%- if type in ["tinyint", "byte", "smallint", "short", "int", "integer"] -%}
        {{ return("cast(" ~ value ~ " as bigint)") }}
    {%- elif type in ["float", "real"] -%}
        {{ return("cast(" ~ value ~ " as double)") }}
    {%- elif type == "date" -%}
        {{ return("cast(" ~ value ~ " as timestamp_ntz)") }}
    {%- elif cdc._decimal_digits(type) -%}
        {%- set text = "cast(" ~ value ~ " as string)" -%}
        {%- set trimmed = "rtrim('.', rtrim('0', " ~ text ~ "))" if cdc._decimal_digits(type)[1] else text -%}
        {#- Trimming costs ten times as much as looking at the last digit. -#}
        {{ return("if(endswith(" ~ text ~ ", '0'), " ~ trimmed ~ ", " ~ text ~ ")" if is_column and trimmed != text else trimmed) }}
    {%- endif -%}
    {{ return(value) }}
{%- endmacro %}
