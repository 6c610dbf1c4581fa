{#-
    Brings the columns of a table that is there to what is declared: a renamed column is renamed, an added column or field of a struct added,
    a widened type widened, all in the table's metadata only. A dropped column stays, null from there on. Any other change of a type
    is refused before anything is written. What an earlier run did not get to is done now. Returns name to type of the table's columns.
      columns   name to type
      images    names of those that `_events` keeps an image of, too
      renames   name to former names
-#}
{% macro _evolve(relation, columns, images=[], renames={}) -%}
    {%- set known_types = cdc._column_types(relation) -%}
    {%- set there = {"": cdc._by_lower_name(known_types)} -%}
    {%- if images -%}
        {%- set event = cdc._struct_fields(cdc._item_type(known_types["_events"])) -%}
        {%- do there.update({"_events.element._image.":
            cdc._by_lower_name(cdc._struct_fields(event["_image"])) if "_image" in event else {}}) -%}
    {%- endif -%}
    {%- set changes = {"renamed": [], "added": [], "widened": []} -%}
    {%- set first_images = [] -%}
    {%- set refused = {} -%}
    {%- for name, type in columns.items() -%}
        {%- for place, types in there.items() if place == "" or name in images -%}
            {%- set former = renames.get(name, []) | map("lower") | select("in", types) | first -%}
            {%- set known = types.get(name | lower) or types.get(former | default("")) -%}
            {%- if not types -%}
                {%- do first_images.append(cdc._quoted(name) ~ ": " ~ type) -%}
            {%- elif known is none -%}
                {%- do changes.added.append(place ~ cdc._quoted(name) ~ " " ~ type) -%}
            {%- else -%}
                {%- if name | lower not in types -%}
                    {%- do changes.renamed.append(place ~ cdc._quoted(former) ~ " to " ~ cdc._quoted(name)) -%}
                {%- endif -%}
                {%- do changes.update({"problems": []}) -%}
                {%- do cdc._type_changes(place ~ cdc._quoted(name), known, type, changes) -%}
                {%- if changes.problems -%}{%- do refused.update({name: known}) -%}{%- endif -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if first_images -%}
        {%- do changes.added.append("_events.element._image struct<" ~ (first_images | join(", ")) ~ ">") -%}
    {%- endif -%}
    {%- if refused -%}
        {%- do cdc._refuse_types(relation, refused, columns) -%}
    {%- endif -%}
    {%- if changes.renamed -%}
        {%- if cdc._table_properties(relation).get("delta.columnMapping.mode", "none") == "none" -%}
            {%- do run_query("alter table " ~ relation ~ " set tblproperties ('delta.columnMapping.mode' = 'name')") -%}
        {%- endif -%}
        {%- for change in changes.renamed -%}
            {%- do run_query("alter table " ~ relation ~ " rename column " ~ change) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if changes.added -%}
        {%- do run_query("alter table " ~ relation ~ " add columns (" ~ (changes.added | join(", ")) ~ ")") -%}
    {%- endif -%}
    {%- if changes.widened -%}
        {%- do run_query("alter table " ~ relation ~ " set tblproperties ('delta.enableTypeWidening' = 'true')") -%}
        {%- for change in changes.widened -%}
            {%- do run_query("alter table " ~ relation ~ " alter column " ~ change) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- set is_changed = changes.renamed or changes.added or changes.widened -%}
    {{ return(cdc._column_types(relation) if is_changed else known_types) }}
{%- endmacro %}


{#- Says of all columns whose type cannot become the declared one what the ways out are. -#}
{% macro _refuse_types(relation, refused, columns) -%}
    {%- set problems = [] -%}
    {%- for name, known in refused.items() -%}
        {%- do problems.append(
            relation.schema ~ "." ~ relation.identifier ~ ": column `" ~ name ~ "` is " ~ known ~ " and is now declared as "
            ~ columns[name] ~ ", which Delta cannot widen it to. Take the change back: values that do not fit are quarantined, and"
            ~ " `dbt run-operation cdc_replay` reads them again. Or build the table and what reads it anew from the raw events,"
            ~ " with --full-refresh after dropping it.") -%}
    {%- endfor -%}
    {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
{%- endmacro %}


{#-
    Brings a table to the columns that its events have, and the traits to those of the table: its order is that of the images too, and a
    column that was dropped from the declaration is NULL in every new event.
-#}
{% macro _evolve_to(t, relation, images, properties) -%}
    {%- set columns = {} -%}
    {%- for name in t.key_columns + t.value_columns -%}
        {%- do columns.update({name: t.types[name]}) -%}
    {%- endfor -%}
    {%- set there = cdc._evolve(relation, columns, images, t.renames) -%}
    {%- do cdc._rename_keys(t, relation, properties) -%}
    {%- set hidden = cdc._history_columns({"key_columns": t.key_columns, "value_columns": []})
        + ["_cdc_updated_at", "_cdc_deleted_at"] + (t.declaration.partition_by.keys() | list if t.declaration else []) -%}
    {%- set names = t.value_columns | map("lower") | list -%}
    {%- set values = [] -%}
    {%- set dropped = [] -%}
    {%- set types = dict(t.types) -%}
    {%- for name, type in there.items() -%}
        {%- if name not in hidden -%}
            {%- do values.append(name) -%}
            {%- if name | lower not in names -%}{%- do dropped.append(name) -%}{%- endif -%}
        {%- endif -%}
        {%- if name not in hidden or name == "_events" -%}{%- do types.update({name: type}) -%}{%- endif -%}
    {%- endfor -%}
    {%- do t.update({
        "tracked": values if t.tracked == t.value_columns else t.tracked,
        "value_columns": values,
        "dropped": dropped,
        "event_types": t.types,
        "types": types,
    }) -%}
{%- endmacro %}


{#- Key and tracked columns by their new names in what a table says of itself, and in its tombstones. -#}
{% macro _rename_keys(t, relation, properties) -%}
    {%- set renamed = [] -%}
    {%- for trait, now in cdc._history_properties(t).items() if properties.get(trait, now) != now -%}
        {%- do renamed.append(cdc._literal(trait) ~ " = " ~ cdc._literal(now)) -%}
    {%- endfor -%}
    {%- if renamed -%}
        {%- set tombstones = load_relation(cdc._tombstones_of(relation)) -%}
        {%- if tombstones is not none -%}
            {%- set keys = {} -%}
            {%- for key in t.key_columns -%}{%- do keys.update({key: t.types[key]}) -%}{%- endfor -%}
            {%- do cdc._evolve(tombstones, keys, renames=t.renames) -%}
        {%- endif -%}
        {%- do run_query("alter table " ~ relation ~ " set tblproperties (" ~ (renamed | join(", ")) ~ ")") -%}
    {%- endif -%}
{%- endmacro %}


{#- The events that a row keeps, their columns without a value by their present names. -#}
{% macro _kept_events(t, alias=none) -%}
    {%- set events = (alias ~ "." if alias else "") ~ "_events" -%}
    {%- if not t.renames -%}
        {{ return(events) }}
    {%- endif -%}
    {%- set fields = [] -%}
    {%- for name in cdc._struct_fields(cdc._item_type(t.types["_events"])) -%}
        {%- do fields.append(cdc._present_names(t, "event._unset") ~ " as _unset" if name == "_unset" else "event." ~ name) -%}
    {%- endfor -%}
    {{ return("transform(" ~ events ~ ", event -> struct(" ~ (fields | join(", ")) ~ ")) as _events") }}
{%- endmacro %}


{#- A list of columns, those that were renamed by their present names. -#}
{% macro _present_names(t, names) -%}
    {%- set cases = [] -%}
    {%- for name, former_names in t.renames.items() -%}
        {%- for former in former_names -%}
            {%- do cases.append("when " ~ cdc._literal(former) ~ " then " ~ cdc._literal(name)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return("transform(" ~ names ~ ", name -> case name " ~ (cases | join(" ")) ~ " else name end)" if cases else names) }}
{%- endmacro %}
