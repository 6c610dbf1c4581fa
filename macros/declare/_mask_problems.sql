{#- Masks of columns that are not there or cannot be masked, and expressions that would show what is masked. -#}
{% macro _mask_problems(d, given, at) -%}
    {%- set problems = [] -%}
    {%- if not cdc._is_variable(d.mask_salt) -%}
        {#- What stands there may be the salt: it is not shown. -#}
        {%- do problems.append(at ~ "`mask_salt` is not the name of an environment variable. Write the name alone, such as"
            ~ " CDC_SECRET_SALT; the salt itself would end up in target/manifest.json.") -%}
    {%- endif -%}
    {%- if d.mask is not mapping -%}
        {%- do problems.append(at ~ "`mask` is `" ~ d.mask ~ "`. Write `{<column>: hash}` or `{<column>: drop}`.") -%}
        {{ return(problems) }}
    {%- endif -%}
    {%- if "mask_salt" in given and "mask" not in given -%}
        {%- do problems.append(at ~ "`mask_salt` without `mask`. Name the columns to mask, or remove it.") -%}
    {%- endif -%}
    {%- set columns = {} -%}
    {%- for column in d.columns + d.left_out + d.withheld -%}{%- do columns.update({column.name: column}) -%}{%- endfor -%}
    {%- for name, method in d.mask.items() -%}
        {%- set column = columns.get(name) -%}
        {%- set of_name = "`mask` of column `" ~ name ~ "`" -%}
        {%- if column is none -%}
            {%- do problems.append(at ~ "`mask` names the column `" ~ name ~ "`, which is not declared. Declare it with its data_type, so that"
                ~ " it is known what to mask, or correct the name.") -%}
        {%- elif column in d.left_out -%}
            {%- do problems.append(at ~ of_name ~ ", which `except_columns` names too. Remove it there: `mask: {" ~ name
                ~ ": drop}` leaves it out as well.") -%}
        {%- endif -%}
        {%- if method not in ["hash", "drop"] -%}
            {%- do problems.append(at ~ of_name ~ " is `" ~ method ~ "`. The methods are `hash` and `drop`.") -%}
        {%- elif method == "drop" and name in d.key_columns -%}
            {%- do problems.append(at ~ of_name ~ " is `drop`, and it is a key. Use `hash`: equal keys stay equal.") -%}
        {%- elif method == "hash" and column and modules.re.match("(array|struct|map)<|variant$", column.type) -%}
            {%- do problems.append(at ~ of_name ~ " is `hash`, and its type is " ~ column.type
                ~ ". Use `drop`, or declare it as string: the hash is that of its JSON text then.") -%}
        {%- endif -%}
        {%- for option in ["sequence_by", "event_time", "operation", "arrival", "batch_order", "origin", "changed_columns"] -%}
            {%- for expression in cdc._as_list(d[option]) if expression is string -%}
                {%- for known in [name] + d.renames.get(name, []) if known != d.payload
                    and modules.re.search("(?i)(?<!\\w)" ~ modules.re.escape(known) ~ "(?!\\w)", expression) -%}
                    {%- do problems.append(at ~ "`" ~ option ~ "` (" ~ expression ~ ") reads the masked column `" ~ known
                        ~ "`, and tables and checkpoints would show its value. Use another column, or do not mask this one.") -%}
                {%- endfor -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{#- Whether a text can be the name of an environment variable. -#}
{% macro _is_variable(name) -%}
    {{ return(name is string and modules.re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) is not none) }}
{%- endmacro %}
