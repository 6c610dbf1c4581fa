{#- A date or time: ISO text, or a number since 1970 whose unit is declared or stands in the event's own schema. -#}
{% macro _moment(d, text, type, name) -%}
    {%- set encoding = d.encodings.get(name) -%}
    {%- if encoding == "iso" or (not encoding and d.format != "debezium") -%}
        {{ return(cdc._moment_of_text(cdc._date_text(d, text, type), type)) }}
    {%- elif encoding -%}
        {{ return(cdc._moment_of_micros(cdc._epoch_micros(text, encoding), type)) }}
    {%- endif -%}
    {%- set number = "try_cast(" ~ text ~ " as bigint)" -%}
    {%- set micros -%}
        case substring_index({{ cdc._field(name) }}.name, '.', -1)
            when 'Timestamp' then {{ cdc._epoch_micros(text, "epoch_millis") }}
            when 'MicroTimestamp' then {{ cdc._epoch_micros(text, "epoch_micros") }}
            when 'NanoTimestamp' then {{ cdc._epoch_micros(text, "epoch_nanos") }}
            {{ "else" if type == "date" else "when 'Date' then" }} {{ cdc._epoch_micros(text, "epoch_days") }}
        end
    {%- endset -%}
    case
        when {{ number }} is null then {{ cdc._moment_of_text(cdc._date_text(d, text, type), type) }}
        else get(transform(array({{ micros }}), micros -> {{ cdc._moment_of_micros("micros", type) }}), 0)
    end
{%- endmacro %}


{#- Debezium writes a date with a zone, `2020-02-29Z`, which Spark does not read (`time.precision.mode: isostring`). -#}
{% macro _date_text(d, text, type) -%}
    {%- if d.format != "debezium" or type != "date" -%}
        {{ return(text) }}
    {%- endif -%}
    {{ return("if(length(" ~ text ~ ") = 11, rtrim('Z', " ~ text ~ "), " ~ text ~ ")") }}
{%- endmacro %}


{#-
    Spark also reads 'now', '12:00' and '2020' as times, cuts fractions off behind the sixth digit, times off a date, and the zone
    off a time without one: there only UTC stands for no zone, as Debezium writes it (`time.precision.mode: isostring`).
-#}
{% macro _moment_of_text(text, type) -%}
    {%- set whole = "" if type != "date" else " and (length(" ~ text ~ ") <= 10 or try_cast(" ~ text
        ~ " as timestamp_ntz) = cast(try_cast(" ~ text ~ " as date) as timestamp_ntz))" -%}
    {%- set zoneless = "" if type != "timestamp_ntz" else " and not (substr(" ~ text ~ ", 12) rlike '[-+A-Za-z]' and " ~ text
        ~ " not rlike '(Z|UTC|GMT|[-+]00(:?00)?)$')" -%}
    {%- set cut = " and not (locate('.', " ~ text ~ ") between 1 and length(" ~ text ~ ") - 7 and " ~ text
        ~ " rlike '[.][0-9]{6}[0-9]*[1-9]')" -%}
    {{ return("case when substr(" ~ text ~ ", 5, 1) = '-' and length(" ~ text ~ ") >= 8" ~ cut ~ zoneless ~ whole
        ~ " then try_cast(" ~ text ~ " as " ~ type ~ ") end") }}
{%- endmacro %}


{#- Microseconds since 1970, NULL where they do not hold the value. -#}
{% macro _epoch_micros(text, unit) -%}
    {%- set number = "try_cast(" ~ text ~ " as bigint)" -%}
    {%- if unit == "epoch_nanos" -%}
        {{ return("if(" ~ number ~ " % 1000 = 0, " ~ number ~ " div 1000, null)") }}
    {%- elif unit == "epoch_micros" -%}
        {{ return(number) }}
    {%- endif -%}
    {{ return("try_multiply(" ~ number ~ ", " ~ {"epoch_days": 86400000000, "epoch_seconds": 1000000, "epoch_millis": 1000}[unit]
        ~ "L)") }}
{%- endmacro %}


{#- In the years 1 to 9999, as other readers of the tables know no others. -#}
{% macro _moment_of_micros(micros, type) -%}
    case
        when {{ micros }} between -62135596800000000 and 253402300799999999 then
            {%- if type == "date" %}
            if({{ micros }} % 86400000000 = 0, date_add(date'1970-01-01', cast({{ micros }} div 86400000000 as int)), null)
            {%- elif type == "timestamp_ntz" %}
            timestampadd(microsecond, {{ micros }}, timestamp_ntz'1970-01-01 00:00:00')
            {%- else %}
            timestamp_micros({{ micros }})
            {%- endif %}
    end
{%- endmacro %}


{#- A number since 1970 as a timestamp. -#}
{% macro _instant(text, unit) -%}
    {{ return(cdc._moment_of_micros(cdc._epoch_micros(text, unit), "timestamp")) }}
{%- endmacro %}
