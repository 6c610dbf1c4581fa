{#-
    What is masked in a table of events, and how, is written into its table properties, beside a text that tells one salt from
    another. A column that the table has keeps its mask, or has none: rows from before the change would show other values than
    rows from after it.
      properties   the table's own
      types        name to type of the table's columns
-#}
{% macro _mask_drift(spec, properties, types) -%}
    {%- set there = types | map("lower") | list -%}
    {%- set was = cdc._read_masks(properties) -%}
    {%- set now = cdc._masks(spec) -%}
    {%- set declared = spec.declaration.columns + spec.declaration.withheld if spec.declaration else [] -%}
    {%- set problems = [] -%}
    {%- set build_again = "Undo the change, or drop the table" ~ (", the resolver's table" if spec.follows)
        ~ " and its final table and build them again from the raw events." -%}
    {%- set name_of_table = spec.node.schema ~ "." ~ spec.node.alias -%}
    {%- for column in declared | map(attribute="name") -%}
        {%- set names = [column] + spec.renames.get(column, []) -%}
        {%- set former = [] -%}
        {%- for name in names -%}{%- do former.append(was.get(name)) -%}{%- endfor -%}
        {%- set before = former | select | first | default("clear text") -%}
        {%- set after = now.get(column, "clear text") -%}
        {%- if before != after and names | map("lower") | select("in", there) | list -%}
            {%- do problems.append(name_of_table ~ " was built with column `" ~ column ~ "` as " ~ before
                ~ ", and `mask` and data_type now make it " ~ after ~ ". " ~ build_again) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set salt = properties.get("cdc.salt") -%}
    {%- if salt is not none and cdc._masks_by_hash(spec) and not problems and salt != cdc._salt_check(spec) -%}
        {%- do problems.append(name_of_table ~ " was built with another salt than " ~ spec.declaration.mask_salt
            ~ " has now: equal values would have other hashes. " ~ build_again) -%}
    {%- endif -%}
    {{ return(problems) }}
{%- endmacro %}


{#- A table that is replaced keeps the files of its former versions, and clear text in them: other masks are refused here too. -#}
{% macro _refuse_remasking(spec) -%}
    {%- set existing = load_relation(spec.relation) -%}
    {%- if existing is not none and not existing.is_view -%}
        {%- set problems = cdc._mask_drift(spec, cdc._table_properties(spec.relation), cdc._column_types(spec.relation)) -%}
        {%- if problems -%}
            {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}


{#- Refuses to mask a table that says nothing of itself: it may hold what is to be masked. -#}
{% macro _refuse_foreign_mask(spec) -%}
    {%- if spec.declaration and spec.declaration.mask -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ spec.relation ~ " does not say which of its columns are masked, as another program created it, and "
            ~ spec.declaration.table ~ " declares `mask`. Nothing was written. Drop the table, and build it again from the"
            ~ " raw events."
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#- Masked columns and how: `hash of string`, `drop`. Hashes of numbers of all types are the same. -#}
{% macro _masks(spec) -%}
    {%- set masks = {} -%}
    {%- if spec.declaration -%}
        {%- for column in spec.declaration.columns if column.mask -%}
            {%- do masks.update({column.name: "hash of " ~ cdc._text_family(column.type)}) -%}
        {%- endfor -%}
        {%- for column in spec.declaration.withheld -%}{%- do masks.update({column.name: "drop"}) -%}{%- endfor -%}
    {%- endif -%}
    {{ return(masks) }}
{%- endmacro %}


{% macro _read_masks(properties) -%}
    {{ return(fromjson(properties.get("cdc.mask", "{}"))) }}
{%- endmacro %}


{% macro _masks_by_hash(spec) -%}
    {{ return(spec.declaration and spec.declaration.columns | selectattr("mask") | list | length > 0) }}
{%- endmacro %}


{#- What a table says of its masks when it is made. Empty without any. -#}
{% macro _mask_properties(spec) -%}
    {%- set masks = cdc._masks(spec) -%}
    {%- if not masks -%}
        {{ return({}) }}
    {%- endif -%}
    {%- set salt = {"cdc.salt": cdc._salt_check(spec)} if cdc._masks_by_hash(spec) else {} -%}
    {{ return(dict({"cdc.mask": tojson(masks, sort_keys=true)}, **salt)) }}
{%- endmacro %}


{#-
    Writes down masks of columns that the table does not have yet, before it gets them. The mask of a column that is not declared
    any more stays written down, for the table still has the column.
-#}
{% macro _add_masks(spec, properties) -%}
    {%- set was = cdc._read_masks(properties) -%}
    {%- set masks = dict(was, **cdc._masks(spec)) -%}
    {%- if masks != was -%}
        {%- set added = dict(cdc._mask_properties(spec), **{"cdc.mask": tojson(masks, sort_keys=true)}) -%}
        {%- do run_query("alter table " ~ spec.relation ~ " set " ~ cdc._tblproperties(added)) -%}
    {%- endif -%}
{%- endmacro %}


{#- Tells one salt from another: the start of the hash that a fixed text has. -#}
{% macro _salt_check(spec) -%}
    {{ return(run_query(
        "with mask_keys as (" ~ cdc._mask_keys(spec.declaration) ~ ") select left(" ~ cdc._masked("'dbt-spark-cdc'", "string")
        ~ ", 16) from mask_keys"
    ).rows[0][0]) }}
{%- endmacro %}
