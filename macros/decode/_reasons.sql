{#- Every reason why an event cannot be applied, as one text; NULL for a good event. -#}
{% macro _reasons(d) -%}
    {%- set row_event = "_op in ('I', 'U', 'D')" -%}
    {%- set reasons = ["coalesce(_cdc_raw_problem, _cdc_problem)"] -%}
    {%- if d.source_table -%}
        {%- do reasons.append("case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _cdc_table is null then"
            ~ " 'no table name' end") -%}
    {%- endif -%}
    {%- set sound = "coalesce(_cdc_raw_problem, _cdc_problem) is null" -%}
    {%- do reasons.append("case when " ~ sound ~ " and _seq is null then 'no sequence' end") -%}
    {%- if cdc._has_event_time(d) -%}
        {%- do reasons.append("case when " ~ sound ~ " and _ts is null then 'no event time' end") -%}
    {%- endif -%}
    {%- if d.arrival -%}
        {#- No run would read it. -#}
        {%- do reasons.append("case when _arrived is null then 'no arrival' end") -%}
    {%- endif -%}
    {%- if d.insert_only -%}
        {%- do reasons.append(
            "case when _op in ('U', 'D', 'T') then concat('operation ', _op, ' in a table that is insert_only') end") -%}
    {%- elif d.keyless -%}
        {#- Rows of a source without an operation are upserts by name only. -#}
        {%- set refused = "'D'" if d.format == "flagged" and not d.operation else "'U', 'D'" -%}
        {%- do reasons.append("case when _op in (" ~ refused
            ~ ") then concat('operation ', _op, ' in a table without keys') end") -%}
    {%- endif -%}
    {%- for key in d.key_columns if not d.keyless -%}
        {%- do reasons.append(
            "case when " ~ sound ~ " and " ~ row_event ~ " and " ~ cdc._quoted(key) ~ " is null and cast(" ~ cdc._given(key)
            ~ " as string) is null then "
            ~ cdc._literal("no value for key column " ~ key) ~ " end") -%}
    {%- endfor -%}
    {%- for column in d.columns if column.name in cdc._changeable_keys(d) -%}
        {%- set old = cdc._given("old " ~ column.name) -%}
        {%- do reasons.append("case when " ~ old ~ " is not null and " ~ cdc._view_column("__cdc_old_" ~ column.name)
            ~ " is null then " ~ cdc._misfit_text(d, column, "former value of key column ", old) ~ " end") -%}
    {%- endfor -%}
    {%- for column in d.columns if column.type != "string" or column.name in d.encodings -%}
        {%- do reasons.append(
            "case when " ~ row_event ~ " and " ~ cdc._misfit(d, column) ~ " then "
            ~ cdc._misfit_text(d, column, "column ", "cast(" ~ cdc._given(column.name) ~ " as string)") ~ " end") -%}
    {%- endfor -%}
    {%- for column in d.columns if not d.traits.columns and (column.type == "string" or cdc._decimal_digits(column.type)) -%}
        {%- do reasons.append("case when " ~ row_event ~ " and " ~ cdc._was_rounded(cdc._given(column.name)) ~ " then "
            ~ cdc._literal("column " ~ column.name ~ ": its number has more digits than can be read") ~ " end") -%}
    {%- endfor -%}
    {{ return("nullif(concat_ws('; ', " ~ (reasons | join(", ")) ~ "), '')") }}
{%- endmacro %}


{#- That a value does not fit its type. A masked column's value is not quoted. -#}
{% macro _misfit_text(d, column, what, text) -%}
    {%- if column.mask -%}
        {{ return(cdc._literal(what ~ column.name ~ ": its value, which is masked, is not a " ~ column.type)) }}
    {%- endif -%}
    {%- set said = " has no label in mysqlType" if d.encodings.get(column.name) == "labels" else " is not a " ~ column.type -%}
    {{ return("concat(" ~ cdc._literal(what ~ column.name ~ ": ") ~ ", left(" ~ text ~ ", 100), " ~ cdc._literal(said) ~ ")") }}
{%- endmacro %}


{#-
    Whether a text is that of a double which was read for a number of more digits: VARIANT keeps 38 of them, and none that an
    exponent follows. The event then has the first digits with others behind them, and not only zeros. Its point may be elsewhere
    than that of the text. Where the text has no exponent, there are so many of them, or an exponent, that no number of another
    column which begins alike is meant.
-#}
{% macro _was_rounded(text) -%}
    {%- set digits = "ltrim('0', regexp_replace(" ~ text ~ ", '[-.]|E.*', ''))" -%}
    {%- set so_many = "if(contains(" ~ text ~ ", 'E'), '', '(?=[0-9]{20}|[0-9]+[eE])')" -%}
    {#- Nested, and not one AND: Spark computes what stands twice in a condition for each event, even behind a false first part. -#}
    {{ return("if(length(" ~ text ~ ") between 16 and 25, if(" ~ text ~ " rlike '^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$', length(" ~ digits
        ~ ") between 14 and 17 and replace(_payload, '.', '') rlike concat(left(" ~ digits ~ ", 13), " ~ so_many
        ~ ", '[0-9]{4,}[1-9]'), false), false)") }}
{%- endmacro %}
