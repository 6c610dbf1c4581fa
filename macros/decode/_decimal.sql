{#- Precision and scale, none where the type is no decimal. -#}
{% macro _decimal_digits(type) -%}
    {%- set found = modules.re.fullmatch("(?:decimal|dec|numeric)(?:\\(\\s*(\\d+)\\s*(?:,\\s*(\\d+)\\s*)?\\))?", type) -%}
    {{ return([(found.group(1) or 10) | int, (found.group(2) or 0) | int] if found else none) }}
{%- endmacro %}


{#- A cast to decimal rounds in silence. Few texts have more digits behind the point than the scale: only those are looked at. -#}
{% macro _exact_decimal(text, type) -%}
    {%- set scale = cdc._decimal_digits(type)[1] -%}
    {%- set point = "locate('.', " ~ text ~ ")" -%}
    {%- set short = "(" ~ point ~ " = 0 or length(" ~ text ~ ") - " ~ point ~ " <= " ~ scale ~ ") and not contains(" ~ text
        ~ ", 'E') and not contains(" ~ text ~ ", 'e')" -%}
    {%- set fraction = "length(rtrim('0', regexp_extract(" ~ text ~ ", '[.]([0-9]*)', 1)))" -%}
    {%- set exponent = "coalesce(try_cast(nullif(regexp_extract(" ~ text ~ ", '[eE]([-+]?[0-9]+)', 1), '') as int), 0)" -%}
    {%- set is_zero = text ~ " rlike '^ *[-+]?[0.]+[eE]'" -%}
    {{ return("case when (" ~ short ~ ") or " ~ fraction ~ " - " ~ exponent ~ " <= " ~ scale ~ " or " ~ is_zero ~ " then try_cast("
        ~ text ~ " as " ~ type ~ ") end") }}
{%- endmacro %}


{#- Whether the text of a value must show if it was a number or a text: Debezium writes decimals as base64. -#}
{% macro _keeps_tokens(d, type) -%}
    {{ return(d.format == "debezium" and cdc._decimal_digits(type) is not none) }}
{%- endmacro %}


{#-
    The text of a decimal. Debezium writes it as a number, as text, as the bytes of its unscaled value, or as these bytes with a
    scale. Text that could be read both as a number and as bytes is not guessed at.
-#}
{% macro _number_text(d, text, type, name) -%}
    {%- set inner = "trim(both '\"' from " ~ text ~ ")" if cdc._keeps_tokens(d, type) else text -%}
    {%- set scale = "cast(" ~ cdc._decimal_digits(type)[1] ~ " as int)" -%}
    {%- set field = cdc._field(name) -%}
    {%- if d.encodings.get(name) == "base64" -%}
        {{ return(cdc._number_of_bytes(inner, scale)) }}
    {%- elif d.encodings.get(name) == "number" -%}
        {{ return(inner) }}
    {%- endif -%}
    {#- A pair of bytes and scale, or NULL where the text is the number. -#}
    get(transform(array(case
        when startswith({{ text }}, '{')
            then from_json({{ text }}, 'value string, scale int')
        when not startswith({{ text }}, '"') then null
        when {{ field }}.name like '%.Decimal'
            then struct({{ inner }} as value, try_cast({{ field }}.parameters['scale'] as int) as scale)
        when {{ field }} is null and length({{ inner }}) % 4 = 0 and try_to_binary({{ inner }}, 'base64') is not null
            then struct({{ inner }} as value, if(try_cast({{ inner }} as double) is null, {{ scale }}, null) as scale)
    end), pair -> if(pair is null, {{ inner }}, {{ cdc._number_of_bytes("pair.value", "pair.scale") }})), 0)
{%- endmacro %}


{#- Big-endian two's complement bytes, up to 16 of them, as the text of a number with this scale. -#}
{% macro _number_of_bytes(base64, scale) -%}
    get(transform(
        transform(
            transform(
                array(hex(try_to_binary({{ base64 }}, 'base64'))),
                bytes -> if(length(bytes) between 2 and 32, lpad(bytes, 32, if(bytes >= '8', 'F', '0')), null)
            ),
            bytes -> cast(
                try_add(
                    try_multiply(
                        cast(conv(left(bytes, 16), 16, -10) as decimal(20, 0)), cast(18446744073709551616 as decimal(20, 0))
                    ),
                    cast(conv(right(bytes, 16), 16, 10) as decimal(20, 0))
                ) as string
            )
        ),
        number -> case
            when {{ scale }} not between -100 and 100 then null
            when {{ scale }} <= 0 then concat(number, repeat('0', -{{ scale }}))
            else concat(
                if(startswith(number, '-'), '-', ''),
                regexp_replace(
                    lpad(ltrim('-', number), greatest(length(ltrim('-', number)), {{ scale }} + 1), '0'),
                    concat('([0-9]{', {{ scale }}, '})$'),
                    '.$1'
                )
            )
        end
    ), 0)
{%- endmacro %}
