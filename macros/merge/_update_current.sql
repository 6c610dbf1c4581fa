{#-
    One batch of a final table: what its history changed since the table was written, see `_current_changes`, and one commit that
    changes it. Returns what came of it.
-#}
{% macro _update_current(node) -%}
    {%- if cdc._reads_a_part() -%}
        {{ return("left as it is: --empty and --sample read a part of the rows") }}
    {%- endif -%}
    {#- dbt itself asks when it creates the table, and not when columns of the history are about to be added to it. -#}
    {%- if node.config.contract and node.config.contract.enforced -%}
        {%- do dbt.get_assert_columns_equivalent(node.compiled_code) -%}
    {%- endif -%}
    {%- do cdc._clear_checkpoint() -%}
    {%- set above = graph.nodes[node.depends_on.nodes[0]] -%}
    {%- if above.resource_type != "snapshot" -%}
        {{ return(cdc._update_lives(node)) }}
    {%- endif -%}
    {%- set target = cdc._relation_of(node) -%}
    {%- set history = cdc._relation_of(above) -%}
    {%- do cdc._refuse_other_format(node, target) -%}
    {%- if cdc._is_parquet(node) -%}
        {{ return(cdc._update_parquet(node, history)) }}
    {%- endif -%}
    {%- set fingerprint = cdc._fingerprint(node, [cdc._last_commit(history)]) -%}
    {%- set noted = cdc._read_checkpoint(target) -%}
    {%- if fingerprint is not none and noted.get("fingerprint") == fingerprint and cdc._is_own(target, noted) -%}
        {{ return("nothing new") }}
    {%- endif -%}
    {%- do cdc._keep_format_properties(node, target) -%}
    {#- The properties may have been a commit of their own. -#}
    {%- set checkpoint = cdc._read_checkpoint(target) -%}
    {%- set is_own = cdc._is_own(target, checkpoint) -%}
    {%- set seen = cdc._seen_history(node, history) -%}
    {%- set position = dict(seen.position, fingerprint=fingerprint) -%}
    {%- set spec = {
        "relation": target,
        "key_columns": cdc._as_named(seen.types, cdc._as_list(node.config.get("unique_key"))),
        "types": seen.types,
        "is_large": cdc._is_large(target),
    } -%}
    {%- do cdc._refuse_missing_columns(node, target) -%}
    {%- set version = checkpoint.at -%}
    {%- if checkpoint.get("columns") != position.columns -%}
        {%- do cdc._refuse_other_source(node, cdc._column_types(target), false) -%}
        {%- set columns = cdc._final_types(seen.types) -%}
        {%- set declaration = cdc._upstream_declaration(node) -%}
        {%- do cdc._evolve(target, columns, renames=declaration.renames if declaration else {}) -%}
        {%- set version = cdc._table_version(target) -%}
    {%- endif -%}
    {%- set names = cdc._column_types(target).keys() | list -%}
    {%- do cdc._refuse_other_columns(node, target, history, names, seen.types) -%}
    {%- set reads_changes = is_own and cdc._leads_to(checkpoint, position) -%}
    {%- set writes = cdc._writes_since(history, checkpoint.version) if reads_changes else none -%}
    {%- if reads_changes and not writes -%}
        {{ return("nothing new") }}
    {%- endif -%}
    {%- set read = checkpoint.version if reads_changes else none -%}
    {%- set changes = cdc._current_changes(spec, node, history, names, read, position.version, writes) -%}
    {%- set outcome = cdc._write_current(spec, node, changes.step, {
        "version": version,
        "names": names,
        "position": position,
        "few": changes.few,
        "selected": changes.selected,
        "checkpoint": checkpoint,
        "predicates": changes.predicates,
    }) -%}
    {%- do cdc._drop_steps() -%}
    {{ return(outcome) }}
{%- endmacro %}


{#- Whether the rows of a final table are those that its checkpoint tells of: nobody else wrote it. -#}
{% macro _is_own(target, checkpoint) -%}
    {{ return(checkpoint.get("version") is not none and not cdc._writes_since(target, checkpoint.written_at)) }}
{%- endmacro %}


{#- Names of columns in the letter case that the table has them in. -#}
{% macro _as_named(types, names) -%}
    {%- set own = {} -%}
    {%- for name in types -%}{%- do own.update({name | lower: name}) -%}{%- endfor -%}
    {%- set found = [] -%}
    {%- for name in names -%}{%- do found.append(own.get(name | lower, name)) -%}{%- endfor -%}
    {{ return(found) }}
{%- endmacro %}


{#- A final table with a column that its history does not have: nothing says what is to stand there in rows that change. -#}
{% macro _refuse_other_columns(node, target, history, names, types) -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- set known = types.keys() | list + ["_cdc_updated_at"] + (declaration.partition_by.keys() | list if declaration else []) -%}
    {%- set known = known | map("lower") | list -%}
    {%- set others = [] -%}
    {%- for name in names if name | lower not in known -%}{%- do others.append("`" ~ name ~ "`") -%}{%- endfor -%}
    {%- if others -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ target ~ " has the column " ~ (others | join(", ")) ~ ", which its history " ~ history ~ " does not have. Nothing was"
            ~ " written. Drop the column, or rebuild the table: dbt build --full-refresh --select " ~ node.name ~ ". Put columns of your"
            ~ " own into a model that reads the table."
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#- A final table without a column that was declared to be computed since: its rows would have to be computed again. -#}
{% macro _refuse_missing_columns(node, target) -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- if not declaration or not declaration.partition_by -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set known = cdc._table_types(target) | map("lower") | list -%}
    {%- set missing = [] -%}
    {%- for name in declaration.partition_by if name | lower not in known -%}
        {%- do missing.append("`" ~ name ~ "`") -%}
    {%- endfor -%}
    {%- if missing -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ target ~ " has no column " ~ (missing | join(", ")) ~ ", which `partition_by` of " ~ declaration.table
            ~ " declares. Nothing was written. Build the table again: dbt build --full-refresh --select " ~ node.name
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#- What a final table is made of: its history's version, the history itself, its columns, and how others are computed of them. -#}
{% macro _seen_history(node, history) -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- set types = cdc._table_types(history) -%}
    {{ return({
        "types": types,
        "position": {
            "history": cdc._table_properties(history).get("cdc.build"),
            "version": cdc._table_version(history),
            "columns": local_md5(types | string),
            "computed": local_md5(tojson(declaration.partition_by if declaration else {})),
        },
    }) }}
{%- endmacro %}


{#- Whether a final table that was made of one state of its history becomes that of another by the changes between them. -#}
{% macro _leads_to(checkpoint, position) -%}
    {{ return(checkpoint.get("columns") == position.columns and checkpoint.get("history") == position.history
        and checkpoint.version <= position.version
        and checkpoint.get("computed", position.computed) == position.computed) }}
{%- endmacro %}


{#- The columns of a history that its final table has, with their types. -#}
{% macro _final_types(types) -%}
    {%- set columns = {} -%}
    {%- for name, type in types.items() if name not in cdc._history_columns({"key_columns": [], "value_columns": []}) -%}
        {%- do columns.update({name: type}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro %}


{#-
    The columns of a final table as expressions over those that it is made of.
      renamed   name and expression of those that are called otherwise there
-#}
{% macro _final_columns(node, names, renamed={}) -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- set computed = dict(declaration.partition_by if declaration else {}, **renamed) -%}
    {%- set columns = [] -%}
    {%- for name in names -%}
        {%- do columns.append((computed[name] ~ " as " if name in computed else "") ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro %}


{#- Notes in the checkpoint what a final table is made of, before it is made. Returns what it was declared as. -#}
{% macro _first_current(node) -%}
    {%- set above = graph.nodes[node.depends_on.nodes[0]] -%}
    {%- set target = cdc._relation_of(node) -%}
    {%- if above.resource_type == "snapshot" -%}
        {%- set history = cdc._relation_of(above) -%}
        {%- set seen = cdc._seen_history(node, history) -%}
        {%- if not cdc._reads_a_part() -%}
            {%- if cdc._is_parquet(node) -%}
                {%- do cdc._refuse_partition_types(node, cdc._column_types(cdc._current_rows(node, history))) -%}
                {{ return({"cdc.checkpoint": tojson(seen.position)}) }}
            {%- endif -%}
            {%- set fingerprint = cdc._fingerprint(node, [cdc._last_commit(history)]) -%}
            {%- do cdc._set_checkpoint(target, dict(seen.position, fingerprint=fingerprint), cdc._creation()) -%}
        {%- endif -%}
        {{ return(cdc._table_features(seen.types.values(), node)) }}
    {%- endif -%}
    {%- set spec = cdc._first_lives_spec(node) -%}
    {%- do cdc._note_first_window(spec, node) -%}
    {{ return(dict(cdc._built_as(spec), **cdc._table_features(spec.types.values(), node))) }}
{%- endmacro %}
