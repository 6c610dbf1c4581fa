{#-
    Keys, sequence and tracked columns of a history are written into its table properties and cannot change under it, but for
    their names. Nor can it get an event time, or lose it.
      types   name to type of the table's columns
-#}
{% macro _refuse_drift(node, spec, properties, types) -%}
    {%- set problems = cdc._mask_drift(spec, properties, types) -%}
    {#- `dbt retry` does not build a staging model again that was built of the other declaration. -#}
    {%- set build_again = "build the staging model again as well: dbt build --select +" ~ node.name ~ ". Or drop the table and its"
        ~ " final table and build them again from the raw events." -%}
    {#- Expressions that may say the same in other words, with the new name of a column for instance. -#}
    {%- set confirmed = {
        "cdc.sequence_by": "every event keeps its position", "cdc.partition_by": "every row keeps its values of these columns",
    } -%}
    {%- set had_time = cdc._keeps_time(types) -%}
    {%- if had_time != ("_ts" in spec.types) -%}
        {%- do problems.append(
            node.schema ~ "." ~ node.alias ~ " was built " ~ ("with" if had_time else "without") ~ " an event time, and its events have "
            ~ ("none" if had_time else "one") ~ " now. Undo the change of `event_time` and " ~ build_again) -%}
    {%- endif -%}
    {%- for trait, now in cdc._history_properties(spec).items()
        if now not in [properties.get(trait, now), cdc._by_present_names(spec, properties.get(trait, now))] -%}
        {%- do problems.append(
            node.schema ~ "." ~ node.alias ~ " was built with " ~ trait ~ " `" ~ properties[trait]
            ~ "`, it is now declared as `" ~ now ~ "`. Undo the change and " ~ build_again
            ~ (" Or, if " ~ confirmed[trait] ~ ": alter table " ~ spec.relation ~ " set tblproperties ('" ~ trait ~ "' = "
            ~ cdc._literal(now) ~ ")" if trait in confirmed else "")) -%}
    {%- endfor -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
    {%- endif -%}
{%- endmacro %}


{#- Whether the events that a history keeps have a time. Names of untracked columns are in the same type. -#}
{% macro _keeps_time(types) -%}
    {{ return("_ts" in cdc._struct_fields(cdc._item_type(types["_events"]))) }}
{%- endmacro %}


{#- A final table that is built from events keeps what a later one needs; one that is built from a history has none of it. -#}
{% macro _refuse_other_source(node, types, reads_events) -%}
    {%- if ("_cdc_deleted_at" in types) != reads_events -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ node.schema ~ "." ~ node.alias ~ " was built from " ~ ("a history" if reads_events else "events") ~ " and reads "
            ~ ("events" if reads_events else "a history") ~ " now. Nothing was written. Undo the change of `history`, or build the"
            ~ " table: dbt build --full-refresh --select " ~ node.name
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#- Refuses a table that this version of the package did not build: one of an older version, or of another snapshot strategy. -#}
{% macro _refuse_old_layout(relation, columns, needed) -%}
    {%- set missing = needed | reject("in", columns) | list -%}
    {%- if missing and "_events" not in columns -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ relation ~ " is not a history of this package: it has no column `_events`. Another snapshot strategy"
            ~ " built it, or somebody created it. Nothing was written. Rename the table to keep its rows, or drop the"
            ~ " table; the next build makes the history from the raw events."
        ) -%}
    {%- elif missing -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ relation ~ " was built by an older version of the package and has no column `" ~ (missing | join("`, `")) ~ "`."
            ~ " Nothing was written. Upgrade it, with all its versions: dbt run-operation cdc_upgrade --args '{dry_run: false}'"
        ) -%}
    {%- endif -%}
{%- endmacro %}


{% macro _by_present_names(spec, text) -%}
    {%- set names = [] -%}
    {%- for written in text.split(", ") -%}
        {%- set present = [written] -%}
        {%- for name, former_names in spec.renames.items() if written in former_names -%}
            {%- do present.insert(0, name) -%}
        {%- endfor -%}
        {%- do names.append(present[0]) -%}
    {%- endfor -%}
    {{ return(names | join(", ")) }}
{%- endmacro %}


{#-
    The type of the positions does not tell whether they compare: those of Maxwell, Debezium and DMS are all lists of numbers, and
    a later event by another order would stand before all that is known.
-#}
{% macro _history_properties(spec) -%}
    {%- set d = spec.declaration -%}
    {%- set more = {"cdc.sequence_by": (d.sequence_by | join(", ")) or "the order of " ~ d.format} if d else {} -%}
    {#- A final table that is made of events keeps what these columns were for rows that do not change. -#}
    {%- if d and not d.history and d.partition_by -%}
        {%- do more.update({"cdc.partition_by": tojson(d.partition_by, sort_keys=true)}) -%}
    {%- endif -%}
    {{ return(dict({
        "cdc.keys": spec.key_columns | join(", "),
        "cdc.sequence": spec.types["_seq"],
        "cdc.tracked": ((d.track_history_columns if d else []) | join(", ")) or "all",
    }, **more)) }}
{%- endmacro %}
