{#-
    Identifiers and literals enter SQL only through these two, so that a name or a text can never become code. Spark puts
    variables, as in `${name}`, into the text of a statement before it reads it.
-#}

{% macro _quoted(name) -%}
    {{ return("`" ~ (name | string | replace("`", "``")) ~ "`") }}
{%- endmacro %}


{% macro _literal(text) -%}
    {{ return("'" ~ (text | string | replace("\\", "\\\\") | replace("'", "\\'") | replace("${", "\\u0024{")) ~ "'") }}
{%- endmacro %}


{#- Each name of a list, quoted. -#}
{% macro _quoted_all(names) -%}
    {%- set quoted = [] -%}
    {%- for name in names -%}{%- do quoted.append(cdc._quoted(name)) -%}{%- endfor -%}
    {{ return(quoted) }}
{%- endmacro %}


{#- Each text of a list as a literal. -#}
{% macro _literals(texts) -%}
    {%- set literals = [] -%}
    {%- for text in texts -%}{%- do literals.append(cdc._literal(text)) -%}{%- endfor -%}
    {{ return(literals) }}
{%- endmacro %}


{#- `a`, `b`, `c`, each behind an alias where one is given. -#}
{% macro _column_list(names, alias=none) -%}
    {%- set prefix = alias ~ "." if alias else "" -%}
    {%- set quoted = [] -%}
    {%- for name in names -%}
        {%- do quoted.append(prefix ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {{ return(quoted | join(", ")) }}
{%- endmacro %}


{#- Null-safe equality of two rows on a list of columns. -#}
{% macro _same(names, left, right) -%}
    {%- set pairs = [] -%}
    {%- for name in names -%}
        {%- do pairs.append(left ~ "." ~ cdc._quoted(name) ~ " <=> " ~ right ~ "." ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {{ return(pairs | join(" and ")) }}
{%- endmacro %}
