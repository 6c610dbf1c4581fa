{#- Everything that is wrong with a declaration, each with its remedy. Empty where it is sound. -#}

{% macro _declaration_problems(declaration, given) -%}
    {%- set d = declaration -%}
    {%- set problems = [] -%}
    {%- set at = d.table ~ " (" ~ d.file ~ "): " -%}
    {%- set known = [
        "format", "keys", "sequence_by", "event_time", "operation", "apply_as_deletes", "apply_as_truncates",
        "changed_columns", "ignore_null_updates", "except_columns", "track_history_columns", "renames", "history", "insert_only",
        "key_changes", "partition_by", "on_bad_event", "payload", "where", "landed", "arrival", "arrival_overlap", "origin",
        "batch_order", "source_table", "encodings", "message_key", "old_key", "unavailable_value", "mask", "mask_salt", "bootstrap",
    ] -%}
    {%- for option in given if option not in known -%}
        {%- do problems.append(at ~ "unknown option `" ~ option ~ "`. The options are " ~ (known | join(", ")) ~ ".") -%}
    {%- endfor -%}

    {%- set formats = cdc._formats().keys() | list -%}
    {%- if d.format is none -%}
        {%- do problems.append(at ~ "no `format`. Declare one of " ~ (formats | join(", ")) ~ ".") -%}
    {%- elif d.format not in formats -%}
        {%- do problems.append(at ~ "unknown format `" ~ d.format ~ "`. The formats are " ~ (formats | join(", ")) ~ ".") -%}
    {%- endif -%}

    {%- set names = d.columns | map(attribute="name") | list -%}
    {%- do problems.extend(cdc._column_problems(d, at)) -%}

    {%- if given.get("keys") is none and "keys" not in given -%}
        {%- do problems.append(at ~ "no `keys`. Name the columns of the key, or write `keys: []` for a table without one.") -%}
    {%- endif -%}
    {%- for role, wanted in [("key", d.key_columns if not d.keyless else []), ("tracked", d.track_history_columns),
            ("ignore_null_updates", cdc._as_list(d.ignore_null_updates) if d.ignore_null_updates is not boolean else [])] -%}
        {%- for name in wanted if name not in names -%}
            {%- do problems.append(at ~ role ~ " column `" ~ name ~ "` is not among the declared columns ("
                ~ (names | join(", ")) ~ "). Correct the name or declare the column.") -%}
        {%- endfor -%}
    {%- endfor -%}

    {%- do problems.extend(cdc._rename_problems(d, given, at, names)) -%}
    {%- do problems.extend(cdc._mask_problems(d, given, at)) -%}
    {%- do problems.extend(cdc._sequence_problems(d, at)) -%}
    {%- do problems.extend(cdc._option_problems(d, given, at)) -%}
    {%- do problems.extend(cdc._expression_problems(d, at)) -%}
    {%- do problems.extend(cdc._bootstrap_problems(d, at)) -%}
    {%- if d.format == "flagged" and not d.operation and not d.apply_as_deletes -%}
        {%- do problems.append(at ~ "neither `operation` nor `apply_as_deletes`. Name the flag column, or the condition that marks"
            ~ " a delete (`apply_as_deletes: 'false'` where nothing is deleted).") -%}
    {%- endif -%}
    {%- for option in ["history", "insert_only", "key_changes", "landed"] if d[option] is not boolean -%}
        {%- do problems.append(at ~ "`" ~ option ~ "` is `" ~ d[option] ~ "`. Write true or false.") -%}
    {%- endfor -%}
    {%- if d.batch_order and not d.arrival -%}
        {%- do problems.append(at ~ "`batch_order` needs `arrival`. Declare it too, often as the same expression.") -%}
    {%- endif -%}
    {%- if d.arrival_overlap is not integer or d.arrival_overlap < 0 -%}
        {%- do problems.append(at ~ "`arrival_overlap` is `" ~ d.arrival_overlap ~ "`. Write a whole number, in the unit of"
            ~ " `arrival`.") -%}
    {%- elif d.arrival_overlap and (not d.arrival or d.batch_order or d.key_changes) -%}
        {%- do problems.append(at ~ "`arrival_overlap` needs `arrival`, and cannot be combined with `batch_order` or `key_changes`."
            ~ " Remove it" ~ ("; or the `arrival`: without one the events are read whole." if d.key_changes else ".")) -%}
    {%- endif -%}
    {%- if not d.history and d.track_history_columns -%}
        {%- do problems.append(at ~ "`track_history_columns` without a history (`history: false`). Remove one of the two.") -%}
    {%- endif -%}
    {%- if d.partition_by is not mapping -%}
        {%- do problems.append(at ~ "`partition_by` is `" ~ d.partition_by ~ "`."
            ~ " Write `{<new column>: <expression>}`; name an existing column in the final model's own `partition_by`.") -%}
    {%- else -%}
        {%- for name in d.partition_by if name in names or cdc._is_reserved(name) -%}
            {%- do problems.append(at ~ "`partition_by` makes a column `" ~ name ~ "` that already exists."
                ~ " Choose another name.") -%}
        {%- endfor -%}
        {%- for name, expression in d.partition_by.items() if expression is none -%}
            {%- do problems.append(at ~ "`partition_by` has no expression for the column `" ~ name ~ "`. In braces YAML divides at"
                ~ " commas: put an expression that has one into quotes.") -%}
        {%- endfor -%}
    {%- endif -%}
    {%- do problems.extend(cdc._key_change_problems(d, at)) -%}
    {%- if d.on_bad_event not in ["quarantine", "fail"] -%}
        {%- do problems.append(at ~ "`on_bad_event` is `" ~ d.on_bad_event ~ "`. Write `quarantine` (default) or `fail`.") -%}
    {%- endif -%}
    {{ return(problems) }}
{%- endmacro %}


{#- Columns whose names or types Spark, Delta or the package cannot take. -#}
{% macro _column_problems(d, at) -%}
    {%- set problems = [] -%}
    {%- if not d.columns and not d.withheld -%}
        {%- do problems.append(at ~ "no columns. List them under `columns:` with `name` and `data_type`.") -%}
    {%- endif -%}
    {%- set seen = [] -%}
    {%- for column in d.columns -%}
        {%- if column.name | lower in seen -%}
            {%- do problems.append(at ~ "column `" ~ column.name ~ "` is listed twice (names in Spark are not case-sensitive)."
                ~ " Keep one.") -%}
        {%- endif -%}
        {%- do seen.append(column.name | lower) -%}
        {%- if cdc._is_reserved(column.name) -%}
            {%- do problems.append(at ~ "column `" ~ column.name ~ "` has a name that the package uses itself. Leave it out"
                ~ " with `except_columns`, or rename it where the events are written.") -%}
        {%- endif -%}
        {%- if modules.re.search("[ ,;{}()\n\t=`]", column.name) -%}
            {%- do problems.append(at ~ "column `" ~ column.name ~ "` has a character that Delta does not allow in names (blank,"
                ~ " tab, line break or one of , ; { } ( ) = `). Declare a view of the raw table that gives it another name.") -%}
        {%- endif -%}
        {%- if not column.type -%}
            {%- do problems.append(at ~ "column `" ~ column.name ~ "` has no data_type. Declare a Spark type.") -%}
        {%- elif not cdc._is_spark_type(column.type) -%}
            {%- do problems.append(at ~ "column `" ~ column.name ~ "` has the data_type `" ~ column.type ~ "`, which Spark does"
                ~ " not have. Use a Spark SQL type such as bigint, string, decimal(12,2), timestamp or date.") -%}
        {%- elif "" in (cdc._struct_fields(column.type) or {}).values() -%}
            {%- do problems.append(at ~ "column `" ~ column.name ~ "` is a " ~ column.type ~ ". Write the fields of a"
                ~ " struct with a colon: struct<name: type>.") -%}
        {%- elif column.type.startswith("map<") or column.type == "variant" -%}
            {%- do problems.append(at ~ "column `" ~ column.name ~ "` is a " ~ column.type ~ ", which Spark cannot compare."
                ~ " Declare it as string (JSON text) or struct.") -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{% macro _rename_problems(d, given, at, names) -%}
    {%- set problems = [] -%}
    {%- set taken = names | map("lower") | list -%}
    {%- if "renames" in given and given.renames is not mapping -%}
        {%- do problems.append(at ~ "`renames` is `" ~ given.renames
            ~ "`. Write `{<column>: <former name, or a list of them>}`.") -%}
    {%- endif -%}
    {%- for name, former_names in d.renames.items() -%}
        {%- if name not in names -%}
            {%- do problems.append(at ~ "`renames`: `" ~ name ~ "` is not among the declared columns (" ~ (names | join(", "))
                ~ "). Declare the column under its new name.") -%}
        {%- endif -%}
        {%- for former in former_names -%}
            {%- if former | lower in taken -%}
                {%- do problems.append(at ~ "`renames`: `" ~ former ~ "`, the former name of `" ~ name
                    ~ "`, is a declared column or another column's former name. An event would be ambiguous:"
                    ~ " remove one.") -%}
            {%- endif -%}
            {%- do taken.append(former | lower) -%}
        {%- endfor -%}
        {%- if d.key_changes is sameas true and name in d.key_columns -%}
            {%- do problems.append(at ~ "`renames`: `" ~ name ~ "` is a key column, and with `key_changes` the resolver's table"
                ~ " has it by its former name. Keep that name in the declaration.") -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{#- What `key_changes` cannot be combined with. -#}
{% macro _key_change_problems(d, at) -%}
    {%- if d.key_changes is not sameas true -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set problems = [] -%}
    {%- for option, clash, why in [
        ("keys: []", d.keyless, "a row without a key has none that changes"),
        ("history: false", not d.history, "the history is what follows a row through its keys"),
        ("insert_only", d.insert_only, "rows that are only inserted keep their key"),
        ("batch_order", d.batch_order, "the history reads the resolver's runs, not the source's batches"),
        ("format: " ~ d.format, d.traits.columns, "it carries no old key"),
    ] if clash -%}
        {%- do problems.append(at ~ "`key_changes` cannot be combined with `" ~ option ~ "`: " ~ why
            ~ ". Remove one of the two.") -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{#- Whether there is something that orders the events. -#}
{% macro _sequence_problems(d, at) -%}
    {%- if d.sequence_by or not d.traits -%}
        {{ return([]) }}
    {%- elif d.format == "canal" -%}
        {{ return([at ~ "no `sequence_by`. Canal's messages carry no position: name what orders them, such as Kafka's offset; the"
            ~ " rows of a message are in order by themselves."]) }}
    {%- elif d.format == "dms" and not d.payload -%}
        {{ return([at ~ "no `sequence_by`. Files of DMS carry no position by themselves: name the column that holds"
            ~ " `$AR_H_CHANGE_SEQ` or the commit time. Where the events are messages, with `metadata`, declare the column that holds them:"
            ~ " `payload: value`."]) }}
    {%- elif not d.traits.sequence -%}
        {{ return([at ~ "no `sequence_by`. Name the column, expression or list that orders the events."]) }}
    {%- endif -%}
    {{ return([]) }}
{%- endmacro %}


{#- Options that the format does not have, and encodings that mean nothing. -#}
{% macro _option_problems(d, given, at) -%}
    {%- set problems = [] -%}
    {%- if d.changed_columns and d.format != "flagged" -%}
        {%- do problems.append(at ~ "`changed_columns` belongs to the format flagged; an event of " ~ d.format
            ~ " shows by itself which columns it has. Remove it.") -%}
    {%- endif -%}
    {%- for option in ["operation", "apply_as_deletes", "apply_as_truncates"] if d[option] and d.format != "flagged" -%}
        {%- if option != "operation" or d.traits.operation != "own" -%}
            {%- do problems.append(at ~ "`" ~ option ~ "` belongs to the format flagged; " ~ d.format
                ~ " carries its operation itself. Remove it.") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for option in ["message_key", "old_key", "unavailable_value"] if option in given and d.format != "debezium" -%}
        {%- do problems.append(at ~ "`" ~ option ~ "` belongs to the format debezium. Remove it.") -%}
    {%- endfor -%}
    {%- if d.source_table and not d.traits.table -%}
        {%- do problems.append(at ~ "`source_table`: events of " ~ d.format ~ " do not name their table. Use `where`.") -%}
    {%- endif -%}
    {%- if d.traits.columns and (d.payload or d.landed) -%}
        {%- do problems.append(at ~ d.format ~ " reads the raw table's columns. Remove `payload` and `landed`.") -%}
    {%- endif -%}
    {%- set types = {} -%}
    {%- for column in d.columns -%}{%- do types.update({column.name: column.type}) -%}{%- endfor -%}
    {%- for name, encoding in d.encodings.items() -%}
        {%- set known = cdc._encodings_of(types.get(name, ""), d.format) -%}
        {%- if name not in types -%}
            {%- do problems.append(at ~ "`encodings` names the column `" ~ name ~ "`, which is not declared. Correct the name.") -%}
        {%- elif d.traits.columns -%}
            {%- do problems.append(at ~ "`encodings`: " ~ d.format ~ " reads typed columns. Remove it, or convert in a view.") -%}
        {%- elif encoding not in known -%}
            {%- do problems.append(at ~ "`encodings`: " ~ encoding ~ " is not an encoding of column `" ~ name ~ "` (" ~ types[name]
                ~ "). " ~ ("Choose from " ~ (known | join(", ")) ~ "." if known else "Its type needs none: remove it.")) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{% macro _problem_report(problems) -%}
    {{ return("cdc: " ~ (problems | length) ~ " problem(s) in the declarations. Nothing was written.\n  - "
        ~ (problems | join("\n  - "))) }}
{%- endmacro %}


{#-
    Names of the canonical event and of the columns that history and final tables add, Delta's own of a change feed, and those of
    intermediate tables.
-#}
{% macro _is_reserved(name) -%}
    {%- set lowered = name | lower -%}
    {{ return(
        lowered in ["_op", "_seq", "_seq_end", "_ts", "_event_id", "_unset", "_arrived", "_row_id", "_events", "dbt_scd_id",
            "dbt_updated_at", "dbt_valid_from", "dbt_valid_to", "dbt_change_type", "_reason", "_payload", "_origin", "_row_kind",
            "_change_type", "_commit_version", "_commit_timestamp",
            "_entity_id", "_ended_entity_id", "_former_entity_ids", "_segment_id", "_left_segment_id", "_ended_segment_id",
            "_resolved", "_is_new", "_is_move", "_is_truncate", "_truncate", "_is_end", "_is_repeated", "_is_late", "_is_tied",
            "_ordinal", "_is_birth", "_is_close", "_created", "_is_image", "_is_first", "_is_start", "_is_change", "_version",
            "_positions", "_values", "_change", "_close", "_from", "_first_event_id", "_effects", "_image", "_event", "_newest",
            "_latest", "_age", "_end", "_truncated", "_state", "_is_known", "_is_in_order", "_current_op", "_first_new",
            "_was_open", "_was_latest", "_remembered", "_of_known", "_of_given", "_given_event_id", "_new_events",
            "_may_be_dropped", "_last", "_kept", "_is_visible", "_is_open", "_is_living", "_is_end_of_state", "_is_dropped",
            "_first_id", "_dropped_created", "_births", "_all_effects",
            "_metadata"]
        or lowered.startswith("_old_") or lowered.startswith("_cdc_") or lowered.startswith("__cdc_")
    ) }}
{%- endmacro %}


{#- The fields of `_message` that each format reads. Everything else of an event is read from its text. -#}
{% macro _message_fields(format) -%}
    {{ return({
        "change_event": ["changetype", "timestamp", "columnnames", "columnvalues", "oldkeynames", "oldkeyvalues"],
        "debezium": ["op", "before", "after", "source", "transaction", "__op", "__deleted", "payload", "schema"],
        "wal2json_v1": ["change", "timestamp", "nextlsn"],
        "wal2json_v2": ["action", "timestamp", "lsn", "columns", "identity", "schema", "table"],
        "dms": ["data", "before-image", "metadata"],
        "goldengate": ["table", "op_type", "op_ts", "pos", "before", "after"],
        "maxwell": ["database", "table", "type", "ts", "xid", "xoffset", "commit", "position", "data", "old"],
        "canal": ["database", "table", "type", "isddl", "es", "data", "old"],
    }.get(format, [])) }}
{%- endmacro %}


{#- Expressions that ask `_message` for what it does not have. Spark would name neither the table nor the option. -#}
{% macro _expression_problems(d, at) -%}
    {%- set problems = [] -%}
    {%- set read = cdc._message_fields(d.format) if d.payload else [] -%}
    {%- set before_parsing = ["where", "arrival", "origin"] -%}
    {%- set options = before_parsing + ["sequence_by", "event_time", "operation", "apply_as_deletes", "apply_as_truncates",
        "changed_columns", "message_key", "old_key"] -%}
    {%- for option in options -%}
        {%- set given = cdc._as_list(d[option]) if d[option] is string or d[option] is sequence else [] -%}
        {%- for expression in given if expression is string -%}
            {%- set seen = [] -%}
            {%- for field in modules.re.findall("(?i)(?<![\\w`.])_message\\b(?:[.]`?([\\w-]+))?", expression) -%}
                {%- if field | lower not in seen -%}
                    {%- do seen.append(field | lower) -%}
                    {%- set text = "get_json_object(" ~ (d.payload or "value") ~ ", '$." ~ (field or "<path>") ~ "')" -%}
                    {%- if option in before_parsing and read -%}
                        {%- do problems.append(at ~ "`" ~ option ~ "` reads `_message`, which does not exist before the event is"
                            ~ " parsed. Write `" ~ text ~ "`.") -%}
                    {%- elif not read -%}
                        {%- do problems.append(at ~ "`" ~ option ~ "` reads `_message`, which exists only where events are JSON"
                            ~ " text (`payload`). Name the raw table's columns.") -%}
                    {%- elif field | lower not in read -%}
                        {%- do problems.append(at ~ "`" ~ option ~ "` reads `_message" ~ ("." ~ field if field else "")
                            ~ "`. Of an event of " ~ d.format ~ " `_message` has the fields " ~ (read | join(", "))
                            ~ "; read others from the text: `" ~ text ~ "`.") -%}
                    {%- endif -%}
                {%- endif -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{% macro _is_spark_type(type) -%}
    {%- set simple = "boolean|tinyint|byte|smallint|short|int|integer|bigint|long|float|real|double|date|timestamp|timestamp_ltz"
        ~ "|timestamp_ntz|string|binary|variant|(decimal|dec|numeric)(\\(\\s*\\d+\\s*(,\\s*\\d+\\s*)?\\))?"
        ~ "|(var)?char\\(\\s*\\d+\\s*\\)" -%}
    {{ return(modules.re.fullmatch("(" ~ simple ~ "|(array|map|struct)<.+>)", type | trim) is not none) }}
{%- endmacro %}
