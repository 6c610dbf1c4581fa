{#- HMAC-SHA256 of a value's text, in hexadecimal. NULL stays NULL. Reads the columns of `mask_keys`. -#}
{% macro _masked(value, type) -%}
    {{ return("sha2(concat(__cdc_outer_key, unhex(sha2(concat(__cdc_inner_key, cast(" ~ cdc._text_to_mask(value, type)
        ~ " as binary)), 256))), 256)") }}
{%- endmacro %}


{#- A value as text that is the same for the same number, whichever type of number its table declares. Bytes stay bytes. -#}
{% macro _text_to_mask(value, type) -%}
    {%- if type == "binary" -%}
        {{ return(value) }}
    {%- endif -%}
    {{ return("cast(" ~ (cdc._widest(value, type) if cdc._text_family(type) == "number" else value) ~ " as string)") }}
{%- endmacro %}


{#- Types whose equal values have the same text to mask. -#}
{% macro _text_family(type) -%}
    {%- if type in cdc._integer_types() or cdc._decimal_digits(type) -%}
        {{ return("number") }}
    {%- elif type == "real" -%}
        {{ return("float") }}
    {%- elif type == "timestamp_ltz" -%}
        {{ return("timestamp") }}
    {%- elif modules.re.match("(var)?char\\b", type) -%}
        {{ return("string") }}
    {%- endif -%}
    {{ return(type) }}
{%- endmacro %}


{#-
    One row with the two keys of the HMAC (RFC 2104), made of the salt. A join brings them to the events: an expression that asks
    for the environment is not deterministic, and beside the events it would keep Spark from moving filters to the raw table.
-#}
{% macro _mask_keys(d) -%}
    {%- set problem = "cdc: " ~ d.table ~ " masks columns, and the environment variable " ~ d.mask_salt ~ " has no text of "
        ~ cdc._least_salt() ~ " characters or more where Spark runs. Set it there, and start Spark again." -%}
select
    {%- for name, pad in [("__cdc_inner_key", 54), ("__cdc_outer_key", 92)] %}
    unhex(array_join(transform(__cdc_bytes, byte -> lpad(hex(byte ^ {{ pad }}), 2, '0')), '')) as {{ name }}{{ "," if not loop.last }}
    {%- endfor %}
from (
    select transform(sequence(1, 127, 2), at -> cast(conv(substr(__cdc_hex, at, 2), 16, 10) as int)) as __cdc_bytes
    from (
        select rpad(if(octet_length(__cdc_salt) > 64, sha2(__cdc_salt, 256), hex(__cdc_salt)), 128, '0') as __cdc_hex
        from (
            select if(length(__cdc_given_salt) >= {{ cdc._least_salt() }}, __cdc_given_salt, raise_error({{ cdc._literal(problem) }})) as __cdc_salt
            from (select {{ cdc.mask_salt(d.mask_salt) }} as __cdc_given_salt) as given_salt
        ) as salt
    ) as hex_key
) as key_bytes
{%- endmacro %}


{% macro _least_salt() -%}
    {{ return(16) }}
{%- endmacro %}


{#- The type that the tables give a declared column. -#}
{% macro _table_type(column) -%}
    {{ return("string" if column.mask else column.type) }}
{%- endmacro %}


{#- What is wrong with the salt of a declaration, as far as this process can tell; none where Spark runs elsewhere. -#}
{% macro _salt_problem(d) -%}
    {%- if not d.columns | selectattr("mask") | list or not cdc._is_variable(d.mask_salt) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(adapter.dispatch("salt_problem", "cdc")(d)) }}
{%- endmacro %}


{% macro default__salt_problem(d) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__salt_problem(d) -%}
    {%- set length = adapter.environment_length(d.mask_salt) -%}
    {%- if length is not none and length < cdc._least_salt() -%}
        {{ return(d.table ~ " (" ~ d.file ~ "): `mask` needs a salt of " ~ cdc._least_salt() ~ " characters or more, and the"
            ~ " environment variable " ~ d.mask_salt ~ " has " ~ length
            ~ ". Set it to a random text that you keep secret, or name another variable in `mask_salt`.") }}
    {%- endif -%}
    {{ return(none) }}
{%- endmacro %}
