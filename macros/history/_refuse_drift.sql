{#-
    Keys, sequence and tracked columns of a history are written into its table properties and cannot change under it, but for
    their names.
-#}
{% macro _refuse_drift(node, t, properties) -%}
    {%- set problems = [] -%}
    {%- for trait, now in cdc._history_properties(t).items() if cdc._by_present_names(t, properties.get(trait, now)) != now -%}
        {%- do problems.append(
            node.schema ~ "." ~ node.alias ~ " was built with " ~ trait ~ " `" ~ properties[trait]
            ~ "`, it is now declared as `" ~ now ~ "`. Take the change back, or drop the table and its final table and build them again from the raw events.") -%}
    {%- endfor -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
    {%- endif -%}
{%- endmacro %}


{% macro _by_present_names(t, text) -%}
    {%- set names = [] -%}
    {%- for written in text.split(", ") -%}
        {%- set present = [written] -%}
        {%- for name, former_names in t.renames.items() if written in former_names -%}
            {%- do present.insert(0, name) -%}
        {%- endfor -%}
        {%- do names.append(present[0]) -%}
    {%- endfor -%}
    {{ return(names | join(", ")) }}
{%- endmacro %}


{% macro _history_properties(t) -%}
    {%- set declared = t.declaration.track_history_columns if t.declaration else [] -%}
    {{ return({
        "cdc.keys": t.key_columns | join(", "),
        "cdc.sequence": t.types["_seq"],
        "cdc.tracked": (declared | join(", ")) or "all",
    }) }}
{%- endmacro %}
