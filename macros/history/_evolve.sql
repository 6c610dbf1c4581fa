{#-
    Brings the columns of a table to the declared ones, in the table's metadata only, and returns the types of its columns by
    name: a renamed column is renamed, a new one added. A dropped column stays, NULL from there on. What cannot be done is refused
    before anything is written. What an earlier run did not get to is done now.
      columns   name to type
      images    names of those that `_events` keeps an image of, too
      renames   name to former names
      check     whether only to refuse what cannot be done
-#}
{% macro _evolve(relation, columns, images=[], renames={}, check=false) -%}
    {{ return(adapter.dispatch("evolve", "cdc")(relation, columns, images, renames, check)) }}
{%- endmacro %}


{#- Fields of structs are added, too, and types widened. -#}
{% macro sparkcdc__evolve(relation, columns, images, renames, check) -%}
    {%- set evolved = adapter.evolve(relation, columns, images, renames, check) -%}
    {%- if evolved.problems -%}{%- do cdc._refuse_columns(relation, evolved.problems) -%}{%- endif -%}
    {{ return(evolved.types) }}
{%- endmacro %}


{#- The portable way: columns are added, and renamed where no remembered event has them. The rest is refused. -#}
{% macro default__evolve(relation, columns, images, renames, check) -%}
    {%- set known = cdc._column_types(relation) -%}
    {%- set spelled, renamed, added, problems = {}, {}, [], [] -%}
    {%- set keeps_images = images and "_image" in cdc._struct_fields(cdc._item_type(known["_events"])) -%}
    {%- for name in known -%}{%- do spelled.update({name | lower: name}) -%}{%- endfor -%}
    {%- for name, type in columns.items() if known.get(name, "") | lower != type | lower -%}
        {%- set former = renames.get(name, []) | map("lower") | select("in", spelled) | first | default("") -%}
        {%- set present = spelled.get(name | lower, spelled.get(former)) -%}
        {%- if present is none -%}
            {%- for place in ["", "_events.element._image."] if not place or (name in images and keeps_images) -%}
                {%- do added.append(place ~ cdc._quoted(name) ~ " " ~ type) -%}
            {%- endfor -%}
        {%- elif name | lower not in spelled and known[present] | lower == type | lower and name not in images -%}
            {%- do renamed.update({present: name}) -%}
        {%- else -%}
            {%- do problems.append("column `" ~ name ~ "` is now declared as " ~ type ~ ", and the table has `" ~ present ~ "` as "
                ~ known[present] ~ ". Undo the change, or use `type: sparkcdc`, which widens types, adds fields and renames columns"
                ~ " that events keep.") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if images and not keeps_images -%}
        {%- set fields = [] -%}
        {%- for name in images -%}{%- do fields.append(cdc._quoted(name) ~ ": " ~ columns[name]) -%}{%- endfor -%}
        {%- do added.append("_events.element._image struct<" ~ (fields | join(", ")) ~ ">") -%}
    {%- endif -%}
    {%- if problems -%}{%- do cdc._refuse_columns(relation, problems) -%}{%- endif -%}
    {%- if check -%}
        {{ return(known) }}
    {%- endif -%}
    {%- if renamed and cdc._table_properties(relation).get("delta.columnMapping.mode", "none") == "none" -%}
        {%- do run_query("alter table " ~ relation ~ " set tblproperties ('delta.columnMapping.mode' = 'name')") -%}
    {%- endif -%}
    {%- for former, name in renamed.items() -%}
        {%- do run_query("alter table " ~ relation ~ " rename column " ~ cdc._quoted(former) ~ " to " ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {%- if added -%}
        {%- set features = cdc._table_features(added) -%}
        {%- if features -%}{%- do run_query("alter table " ~ relation ~ " set " ~ cdc._tblproperties(features)) -%}{%- endif -%}
        {%- do run_query("alter table " ~ relation ~ " add columns (" ~ (added | join(", ")) ~ ")") -%}
    {%- endif -%}
    {{ return(cdc._column_types(relation) if renamed or added else known) }}
{%- endmacro %}


{#- Stops the run, before any write, at columns that cannot become the declared ones. -#}
{% macro _refuse_columns(relation, reasons) -%}
    {%- set problems = [] -%}
    {%- for reason in reasons | unique -%}
        {%- do problems.append(relation.schema ~ "." ~ relation.identifier ~ ": " ~ reason ~ " Or build the table and what reads it"
            ~ " again from the raw events: drop it, then dbt build --full-refresh.") -%}
    {%- endfor -%}
    {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
{%- endmacro %}


{#-
    Brings a table to the columns that its events have. Returns the spec with the table's columns: their order is that of the
    images too, and a column that was dropped from the declaration is NULL in every new event.
-#}
{% macro _evolved_spec(spec, images, properties) -%}
    {%- set columns = {} -%}
    {%- for name in spec.key_columns + spec.value_columns -%}
        {%- do columns.update({name: spec.types[name]}) -%}
    {%- endfor -%}
    {%- if properties.get("cdc.identity") != cdc._identity(spec) -%}
        {#- Before the table says anything else of itself. -#}
        {%- do cdc._evolve(spec.relation, columns, images, spec.renames, check=true) -%}
    {%- else -%}
        {%- do cdc._refuse_lost_columns(spec, properties) -%}
    {%- endif -%}
    {%- do cdc._add_masks(spec, properties) -%}
    {%- set spec = cdc._with_identities(spec, properties) -%}
    {%- set there = cdc._evolve(spec.relation, columns, images, spec.renames) -%}
    {%- do cdc._rename_keys(spec, properties) -%}
    {%- set hidden = cdc._history_columns({"key_columns": spec.key_columns, "value_columns": []})
        + ["_cdc_updated_at", "_cdc_deleted_at"] + (spec.declaration.partition_by.keys() | list if spec.declaration else []) -%}
    {%- set names = spec.value_columns | map("lower") | list -%}
    {%- set values = [] -%}
    {%- set dropped = [] -%}
    {%- set types = dict(spec.types) -%}
    {%- for name, type in there.items() -%}
        {%- if name not in hidden -%}
            {%- do values.append(name) -%}
            {%- if name | lower not in names -%}{%- do dropped.append(name) -%}{%- endif -%}
        {%- endif -%}
        {%- if name not in hidden or name == "_events" -%}{%- do types.update({name: type}) -%}{%- endif -%}
    {%- endfor -%}
    {%- set tracks_all = not (spec.declaration and spec.declaration.track_history_columns) -%}
    {{ return(dict(
        spec,
        tracked=values if spec.tracked and tracks_all else spec.tracked,
        value_columns=values,
        dropped=dropped,
        columns=there.keys() | list,
        event_types=spec.types,
        types=types,
    )) }}
{%- endmacro %}


{#-
    Stops at a table that lacks a column although nothing was declared otherwise since it was built: added again, it would be NULL
    in all rows. A column that was declared later may be missing, for a run can be killed before it is added.
-#}
{% macro _refuse_lost_columns(spec, properties) -%}
    {%- if cdc._identity(spec) is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set there = cdc._column_types(spec.relation) | map("lower") | list + properties.get("cdc.added", "").split("\n") -%}
    {%- set lost = [] -%}
    {%- for name in spec.key_columns + spec.value_columns
        if not ([name] + spec.renames.get(name, [])) | map("lower") | select("in", there) | list -%}
        {%- do lost.append("`" ~ name ~ "`") -%}
    {%- endfor -%}
    {%- if lost -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ spec.relation ~ " has no column " ~ (lost | join(", ")) ~ ", which it was built with: somebody"
            ~ " renamed or dropped it. Nothing was written. Rename it back, or restore the table to a version that has it."
            ~ " To rename a column, declare `renames`. Or drop the table and what reads it, and build them again from the"
            ~ " raw events."
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    Key and tracked columns by their new names in what a table says of itself, and in its tombstones; and what tables of older
    versions of the package did not say.
-#}
{% macro _rename_keys(spec, properties) -%}
    {%- set renamed = [] -%}
    {%- for trait, now in cdc._history_properties(spec).items() if properties.get(trait) != now -%}
        {%- do renamed.append(cdc._literal(trait) ~ " = " ~ cdc._literal(now)) -%}
    {%- endfor -%}
    {%- if renamed -%}
        {%- set tombstones = load_relation(spec.tombstones) -%}
        {%- if tombstones is not none -%}
            {%- set keys = {} -%}
            {%- for key in spec.key_columns -%}{%- do keys.update({key: spec.types[key]}) -%}{%- endfor -%}
            {%- do cdc._evolve(tombstones, keys, renames=spec.renames) -%}
        {%- endif -%}
        {%- do run_query("alter table " ~ spec.relation ~ " set tblproperties (" ~ (renamed | join(", ")) ~ ")") -%}
    {%- endif -%}
{%- endmacro %}


{#- The events that a row keeps, their columns without a value by their present names. -#}
{% macro _kept_events(spec, alias) -%}
    {%- set events = (alias ~ "." if alias else "") ~ "_events" -%}
    {%- if not spec.renames -%}
        {{ return(events) }}
    {%- endif -%}
    {%- set fields = [] -%}
    {%- for name in cdc._struct_fields(cdc._item_type(spec.types["_events"])) -%}
        {%- do fields.append(cdc._present_names(spec, "event._unset") ~ " as _unset" if name == "_unset" else "event." ~ name) -%}
    {%- endfor -%}
    {{ return("transform(" ~ events ~ ", event -> struct(" ~ (fields | join(", ")) ~ ")) as _events") }}
{%- endmacro %}


{#- A list of columns, those that were renamed by their present names. -#}
{% macro _present_names(spec, names) -%}
    {%- set cases = [] -%}
    {%- for name, former_names in spec.renames.items() -%}
        {%- for former in former_names -%}
            {%- do cases.append("when " ~ cdc._literal(former) ~ " then " ~ cdc._literal(name)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return("transform(" ~ names ~ ", name -> case name " ~ (cases | join(" ")) ~ " else name end)" if cases else names) }}
{%- endmacro %}
