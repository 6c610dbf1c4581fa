{#-
    Positions. They are compared as numbers, never as text: binlog 2:123 comes after 2:23, and 0/10 after 0/9.
    The declared sequence goes before the format's own. A list orders by its parts in turn and is NULL where one part is;
    `index` is the place inside a message that holds several rows.
-#}
{% macro _sequence(d, own=none, index=none) -%}
    {%- if not d.sequence_by -%}
        {{ return(own) }}
    {%- elif d.sequence_by | length == 1 and not index -%}
        {{ return(d.sequence_by[0]) }}
    {%- endif -%}
    {%- set missing = [] -%}
    {%- set parts = [] -%}
    {%- for part in d.sequence_by -%}
        {%- do missing.append("(" ~ part ~ ") is null") -%}
        {%- do parts.append("(" ~ part ~ ") as part_" ~ loop.index) -%}
    {%- endfor -%}
    {%- if index -%}
        {%- do parts.append(index ~ " as row_index") -%}
    {%- endif -%}
    {{ return("case when " ~ (missing | join(" or ")) ~ " then null else struct(" ~ (parts | join(", ")) ~ ") end") }}
{%- endmacro %}


{#- A log sequence number, two hexadecimal halves, as a number: as text 0/9 would come after 0/10. -#}
{% macro _lsn(text) -%}
    {{ return(
        "case when " ~ text ~ " rlike '^[0-9a-fA-F]{1,8}/[0-9a-fA-F]{1,8}$' then try_cast(conv(concat(substring_index(" ~ text
        ~ ", '/', 1), lpad(substring_index(" ~ text ~ ", '/', -1), 8, '0')), 16, 10) as bigint) end"
    ) }}
{%- endmacro %}


{#- The number of a binlog file: mysql-bin.000003 is 3. -#}
{% macro _binlog_file(text) -%}
    {{ return("try_cast(substring_index(" ~ text ~ ", '.', -1) as bigint)") }}
{%- endmacro %}


{#- A position of hexadecimal parts, as numbers; as many zeros where there is none. -#}
{% macro _hex_position(text, separator, parts) -%}
    {%- set part = "[0-9a-fA-F]{1,15}" -%}
    case
        when {{ text }} rlike '^ *(0x)?{{ part }}([{{ separator }}]{{ part }}){{ "{" ~ (parts - 1) ~ "}" }} *$'
            then transform(
                split(regexp_replace(trim({{ text }}), '^0x', ''), '[{{ separator }}]'),
                part -> try_cast(conv(part, 16, 10) as bigint)
            )
        else array_repeat(0L, {{ parts }})
    end
{%- endmacro %}
