{#- The key before the event, set only where the event moved the row to another key: 01 and 1 are the same number. -#}
{% macro _old_key(d, key) -%}
    {%- if d.traits.columns -%}
        {%- set column = d.columns | selectattr("name", "equalto", key) | first -%}
        {{ return("cast(null as " ~ cdc._table_type(column) ~ ")") }}
    {%- endif -%}
    {%- set moved = [] -%}
    {%- for name in d.key_columns -%}
        {%- do moved.append(cdc._view_column("__cdc_old_" ~ name) ~ " is distinct from " ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {{ return("case when " ~ (moved | join(" or ")) ~ " then " ~ cdc._view_column("__cdc_old_" ~ key) ~ " end") }}
{%- endmacro %}


{#- The same as text, where the texts differ. -#}
{% macro _given_old_key(d, key) -%}
    {%- set kept = [] -%}
    {%- set moved = [] -%}
    {%- for name in d.key_columns -%}
        {%- set given = cdc._is_given(d, name, "_cdc_before") -%}
        {%- set change = cdc._as_text(d, name, cdc._given_value(d, name, "_cdc_before")) ~ " is distinct from "
            ~ cdc._as_text(d, name, cdc._given_value(d, name)) -%}
        {%- if d.traits.changed_before -%}
            {%- do moved.append("(" ~ given ~ " and " ~ change ~ ")") -%}
        {%- else -%}
            {%- do kept.append(given ~ " and ") -%}
            {%- do moved.append(change) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set old = cdc._as_text(d, key, cdc._given_value(d, key, "_cdc_before")) -%}
    {%- if d.traits.changed_before -%}
        {#- A before image of the changed columns only: the other parts of the key are as they were. -#}
        {%- set old = "case when " ~ cdc._is_given(d, key, "_cdc_before") ~ " then " ~ old ~ " else "
            ~ cdc._event_value(d, key) ~ " end" -%}
    {%- endif -%}
    {{ return(
        "case when _cdc_operation = 'U' and " ~ (kept | join("")) ~ "(" ~ (moved | join(" or ")) ~ ") then " ~ old ~ " end"
    ) }}
{%- endmacro %}


{#- The key columns that an event may give an old value of. -#}
{% macro _changeable_keys(d) -%}
    {{ return(d.key_columns if not d.keyless and not d.traits.columns else []) }}
{%- endmacro %}
