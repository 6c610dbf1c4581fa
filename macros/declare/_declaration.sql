{#-
    The declaration of a source table: `config.meta.cdc` and `columns` of its YAML, checked and filled with defaults.
    A source's own `meta.cdc` gives the defaults of its tables.
-#}

{% macro _declaration(relation) -%}
    {#- dbt's `--empty` and `--sample` hand in a relation that is written as a subquery. -#}
    {%- set relation_name = relation if relation is string else relation.render() -%}
    {%- set found = [] -%}
    {%- for names in model.sources -%}
        {%- for node in cdc._graph().sources.values() if node.name == names[1] and node.source_name == names[0] -%}
            {%- if relation_name in [node.relation_name, cdc._fixture_name(node.source_name ~ "__" ~ node.name)] -%}
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
    {%- set sources = cdc._declared_sources(node) -%}
    {{ return(cdc._read_declaration(sources[0]) if sources else none) }}
{%- endmacro %}


{#- The declared source tables that a node reads, itself or through its ancestors. -#}
{% macro _declared_sources(node) -%}
    {%- set found = [] -%}
    {%- for id in node.depends_on.nodes -%}
        {%- if id.startswith("model.") or id.startswith("snapshot.") -%}
            {%- do found.extend(cdc._declared_sources(cdc._graph().nodes[id])) -%}
        {%- elif id.startswith("source.") -%}
            {%- set source = cdc._graph().sources[id] -%}
            {%- if (source.config.get("meta") or source.meta or {}).get("cdc") is not none -%}
                {%- do found.append(source) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found | unique(attribute="unique_id") | list) }}
{%- endmacro %}


{#- Nodes of a run ask for the same declaration ten times. -#}
{% macro _read_declaration(node) -%}
    {{ return(adapter.dispatch("read_declaration", "cdc")(node)) }}
{%- endmacro %}


{% macro default__read_declaration(node) -%}
    {{ return(cdc._checked_declaration(node)) }}
{%- endmacro %}


{% macro sparkcdc__read_declaration(node) -%}
    {#- While dbt parses, the adapter answers nothing. -#}
    {%- if not execute -%}
        {{ return(cdc._checked_declaration(node)) }}
    {%- endif -%}
    {{ return(adapter.once([invocation_id, "declaration", node.unique_id] | string, cdc._checked_declaration, node)) }}
{%- endmacro %}


{% macro _checked_declaration(node) -%}
    {%- set shared = (node.source_meta or {}).get("cdc") or {} -%}
    {%- set own = ((node.config.get("meta") or node.meta) or {}).get("cdc") or {} -%}
    {%- set given = {} -%}
    {%- do given.update(shared) -%}
    {%- do given.update(own) -%}
    {%- set landed = given.get("landed", false) -%}
    {%- set format = given.get("format") -%}
    {%- set traits = cdc._formats().get(format, {}) -%}
    {%- set spelled = {} -%}
    {%- for column in node.columns.values() -%}{%- do spelled.update({column.name | lower: column.name}) -%}{%- endfor -%}
    {%- set except_columns = cdc._as_declared(spelled, given.get("except_columns")) -%}
    {%- set columns = [] -%}
    {%- set left_out = [] -%}
    {%- set withheld = [] -%}
    {%- set mask = cdc._keys_as_declared(spelled, given.get("mask") or {}) -%}
    {%- for column in node.columns.values() -%}
        {%- set method = mask.get(column.name) if mask is mapping else none -%}
        {%- do (left_out if column.name in except_columns else withheld if method == "drop" else columns).append(
            {"name": column.name, "type": (column.data_type or "") | lower, "mask": method == "hash"}) -%}
    {%- endfor -%}
    {%- set keys = cdc._as_declared(spelled, given.get("keys")) -%}
    {%- set declaration = {
        "table": node.source_name ~ "." ~ node.name,
        "file": node.original_file_path,
        "relation": node.relation_name,
        "format": format,
        "traits": traits,
        "columns": columns,
        "left_out": left_out,
        "withheld": withheld,
        "mask": mask,
        "mask_salt": given.get("mask_salt", "CDC_SECRET_SALT"),
        "key_columns": keys or ["_row_id"],
        "keyless": not keys,
        "sequence_by": cdc._as_list(given.get("sequence_by")),
        "event_time": given.get("event_time"),
        "operation": given.get("operation"),
        "apply_as_deletes": given.get("apply_as_deletes"),
        "apply_as_truncates": given.get("apply_as_truncates"),
        "changed_columns": given.get("changed_columns"),
        "ignore_null_updates": given.get("ignore_null_updates", false) if given.get("ignore_null_updates") is boolean
            else cdc._as_declared(spelled, given.get("ignore_null_updates")) or false,
        "track_history_columns": cdc._as_declared(spelled, given.get("track_history_columns")),
        "batch_order": given.get("batch_order"),
        "history": given.get("history", true),
        "insert_only": given.get("insert_only", false),
        "key_changes": given.get("key_changes", false),
        "renames": cdc._former_names(spelled, given.get("renames")),
        "partition_by": given.get("partition_by") or {},
        "on_bad_event": given.get("on_bad_event", "quarantine"),
        "payload": given.get("payload", "value" if landed or traits.get("payload") else none),
        "where": given.get("where", "_table = " ~ cdc._literal(node.name) if landed else none),
        "landed": landed,
        "arrival": given.get("arrival", "_batch" if landed else none),
        "arrival_overlap": given.get("arrival_overlap", 0),
        "origin": given.get("origin", "concat(_file, ':', _row)" if landed else none),
        "problem": "_problem" if landed else none,
        "source_table": cdc._as_list(given.get("source_table")),
        "encodings": cdc._keys_as_declared(spelled, given.get("encodings") or {}),
        "message_key": given.get("message_key"),
        "old_key": given.get("old_key"),
        "unavailable_value": given.get("unavailable_value", "__debezium_unavailable_value"),
        "bootstrap": cdc._declared_bootstrap(shared, own),
    } -%}
    {%- do declaration.update({"problems": cdc._declaration_problems(declaration, given)}) -%}
    {{ return(declaration) }}
{%- endmacro %}


{#-
    What each format knows by itself:
      payload      comes as JSON text, in the column `value` unless declared otherwise
      json         is decoded from JSON text; columns of a typed raw table are written as JSON first
      columns      the values are the raw table's own columns
      sequence     carries its own order
      operation    carries its own operation; `own` where the names of the operations can be configured
      event_time   carries the commit time
      table        carries the name of the table
      several      a raw row can hold several events
      changed_before   the before image holds the changed columns only
      absent       what a column means that an image does not hold: no value given, or null
      null_before  `absent` where a NULL in the before image is no value: images of key or index columns leave the others NULL
      bytes        how text holds bytes
-#}
{% macro _formats() -%}
    {{ return({
        "change_event": {"sequence": true, "operation": true, "bytes": "hex"},
        "flagged": {"columns": true},
        "debezium": {"payload": true, "json": true, "sequence": true, "operation": true, "event_time": true, "table": true,
            "null_before": "absent", "bytes": "base64"},
        "wal2json_v1": {"payload": true, "json": true, "several": true, "sequence": true, "operation": true, "event_time": true, "table": true,
            "bytes": "hex"},
        "wal2json_v2": {"payload": true, "json": true, "sequence": true, "operation": true, "event_time": true, "table": true,
            "bytes": "hex"},
        "dms": {"json": true, "sequence": true, "operation": "own", "event_time": true, "table": true, "absent": "null",
            "bytes": "base64"},
        "goldengate": {"payload": true, "json": true, "sequence": true, "operation": "own", "event_time": true, "table": true,
            "bytes": "base64"},
        "maxwell": {"payload": true, "json": true, "sequence": true, "operation": true, "event_time": true, "table": true,
            "changed_before": true, "bytes": "base64"},
        "canal": {"payload": true, "json": true, "several": true, "operation": true, "event_time": true, "table": true, "changed_before": true,
            "bytes": "latin1"},
        "delta_cdf": {"columns": true, "sequence": true, "operation": "own", "event_time": true},
    }) }}
{%- endmacro %}


{#- `renames`, each with the list of its former names. What is no mapping is for the checks to refuse. -#}
{% macro _former_names(spelled, renames) -%}
    {%- set former = {} -%}
    {%- for name, names in (cdc._keys_as_declared(spelled, renames).items() if renames is mapping else []) -%}
        {%- do former.update({name: cdc._as_list(names)}) -%}
    {%- endfor -%}
    {{ return(former) }}
{%- endmacro %}


{% macro _as_list(value) -%}
    {%- if value is none or value is undefined -%}
        {{ return([]) }}
    {%- endif -%}
    {{ return([value] if value is string else value | list) }}
{%- endmacro %}


{#- Names of columns in the spelling of their declaration, for Spark's names ignore case. -#}
{% macro _as_declared(spelled, value) -%}
    {%- set names = [] -%}
    {%- for name in cdc._as_list(value) -%}{%- do names.append(spelled.get(name | lower, name)) -%}{%- endfor -%}
    {{ return(names) }}
{%- endmacro %}


{% macro _keys_as_declared(spelled, values) -%}
    {%- if values is not mapping -%}
        {{ return(values) }}
    {%- endif -%}
    {%- set found = {} -%}
    {%- for name, value in values.items() -%}{%- do found.update({spelled.get(name | lower, name): value}) -%}{%- endfor -%}
    {{ return(found) }}
{%- endmacro %}
