{#-
    The declaration of a source table: `config.meta.cdc` and `columns` of its YAML, checked and filled with defaults.
    A source's own `meta.cdc` gives the defaults of its tables.
-#}

{% macro _declaration(relation) -%}
    {%- set found = [] -%}
    {%- for names in model.sources -%}
        {%- for node in graph.sources.values() -%}
            {%- if node.source_name == names[0] and node.name == names[1] and node.relation_name == relation | string -%}
                {%- do found.append(node) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if found | length != 1 -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ model.name ~ " must name exactly one declared source table for " ~ relation ~ ", it names "
            ~ (found | length) ~ ". Write `source('<source>', '<table>')` once in the model."
        ) -%}
    {%- endif -%}
    {%- set declaration = cdc._read_declaration(found[0]) -%}
    {%- if declaration.problems -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report(declaration.problems)) -%}
    {%- endif -%}
    {{ return(declaration) }}
{%- endmacro %}


{#- The declaration behind a history or a final table: that of the one source its ancestors read. None without one. -#}
{% macro _upstream_declaration(node) -%}
    {%- set ids = node.depends_on.nodes | list -%}
    {%- set declared = [] -%}
    {%- for id in ids -%}
        {%- if id.startswith("source.") -%}
            {%- if (graph.sources[id].config.get("meta") or graph.sources[id].meta or {}).get("cdc") is not none -%}
                {%- do declared.append(graph.sources[id]) -%}
            {%- endif -%}
        {%- elif id.startswith("model.") or id.startswith("snapshot.") -%}
            {%- set above = cdc._upstream_declaration(graph.nodes[id]) -%}
            {%- if above -%}{{ return(above) }}{%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(cdc._read_declaration(declared[0]) if declared else none) }}
{%- endmacro %}


{% macro _read_declaration(node) -%}
    {%- set shared = (node.source_meta or {}).get("cdc") or {} -%}
    {%- set own = ((node.config.get("meta") or node.meta) or {}).get("cdc") or {} -%}
    {%- set given = {} -%}
    {%- do given.update(shared) -%}
    {%- do given.update(own) -%}
    {%- set landed = given.get("landed", false) -%}
    {%- set format = given.get("format") -%}
    {%- set traits = cdc._formats().get(format, {}) -%}
    {%- set except_columns = cdc._as_list(given.get("except_columns")) -%}
    {%- set columns = [] -%}
    {%- for column in node.columns.values() if column.name not in except_columns -%}
        {%- do columns.append({"name": column.name, "type": (column.data_type or "") | lower}) -%}
    {%- endfor -%}
    {%- set keys = cdc._as_list(given.get("keys")) -%}
    {%- set declaration = {
        "table": node.source_name ~ "." ~ node.name,
        "file": node.original_file_path,
        "relation": node.relation_name,
        "format": format,
        "traits": traits,
        "columns": columns,
        "except_columns": except_columns,
        "key_columns": keys or ["_row_id"],
        "keyless": not keys,
        "sequence_by": cdc._as_list(given.get("sequence_by")),
        "event_time": given.get("event_time"),
        "operation": given.get("operation"),
        "apply_as_deletes": given.get("apply_as_deletes"),
        "apply_as_truncates": given.get("apply_as_truncates"),
        "ignore_null_updates": given.get("ignore_null_updates", false),
        "track_history_columns": cdc._as_list(given.get("track_history_columns")),
        "batch_order": given.get("batch_order"),
        "history": given.get("history", true),
        "insert_only": given.get("insert_only", false),
        "on_bad_event": given.get("on_bad_event", "quarantine"),
        "payload": given.get("payload", "value" if landed or traits.get("payload") else none),
        "where": given.get("where", "_table = " ~ cdc._literal(node.name) if landed else none),
        "landed": landed,
        "arrival": given.get("arrival", "_batch" if landed else none),
        "origin": given.get("origin", "concat(_file, ':', _row)" if landed else none),
        "problem": "_problem" if landed else none,
    } -%}
    {%- do declaration.update({"problems": cdc._declaration_problems(declaration, given)}) -%}
    {{ return(declaration) }}
{%- endmacro %}


{#- What each format knows by itself: whether it comes as JSON text, carries its own order, operation and commit time. -#}
{% macro _formats() -%}
    {{ return({
        "wal2json_v2": {"payload": true, "sequence": true, "operation": true, "event_time": true},
        "change_event": {"payload": false, "sequence": true, "operation": true, "event_time": false},
        "flagged": {"payload": false, "sequence": false, "operation": false, "event_time": false},
    }) }}
{%- endmacro %}


{% macro _as_list(value) -%}
    {%- if value is none or value is undefined -%}
        {{ return([]) }}
    {%- endif -%}
    {{ return([value] if value is string else value | list) }}
{%- endmacro %}
