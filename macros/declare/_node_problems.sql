{#-
    Everything that is wrong with a staging model, a resolver, a history or a final table as far as the project's files tell, each
    with its remedy. Empty for all other nodes.
-#}
{% macro _node_problems(node) -%}
    {%- set kind = cdc._kind_of(node) -%}
    {%- if kind == "staging" -%}
        {{ return(cdc._source_problems(node, node) + cdc._embedded_problems(node)) }}
    {%- elif kind == "history" -%}
        {{ return(cdc._history_problems(node)) }}
    {%- elif kind == "final" -%}
        {{ return(cdc._final_problems(node, cdc._first_above(node))) }}
    {%- elif kind == "resolver" -%}
        {{ return(cdc._resolver_problems(node)) }}
    {%- endif -%}
    {{ return([]) }}
{%- endmacro %}


{#-
    A resolver's table in another format than Delta: nothing tests one in Iceberg.
-#}
{% macro _resolver_problems(node) -%}
    {%- if cdc._file_format(node) != "iceberg" -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set tables = cdc._declared_names(node) -%}
    {{ return([
        node.name ~ ": it has `file_format: iceberg`, and it resolves the keys of " ~ (tables | join(", ") or "its events")
        ~ ". A resolver's table is one of Delta; the history and the final table that follow it can be of Iceberg."
        ~ " Write `file_format=\"delta\"` into `dbt.config(..)` of the model."
    ]) }}
{%- endmacro %}


{#- The model or snapshot that a history or a final table reads; none where that is a source. -#}
{% macro _first_above(node) -%}
    {{ return(cdc._graph().nodes.get((node.depends_on.nodes | list + [none])[0])) }}
{%- endmacro %}


{#-
    Events of several source tables in one table: only the new events of the declared one would be looked for.
      above   the model that brings the events
-#}
{% macro _source_problems(node, above) -%}
    {%- set tables = [] -%}
    {%- for source in cdc._declared_sources(above) -%}{%- do tables.append(source.source_name ~ "." ~ source.name) -%}{%- endfor -%}
    {%- if tables | length < 2 -%}
        {{ return([]) }}
    {%- endif -%}
    {{ return([
        node.name ~ ": it reads events of " ~ (tables | join(" and ")) ~ ". A table follows the declaration and the new events of one"
        ~ " source table, and would miss those of the others. Make a staging model, a history and a final table of each, and a view that"
        ~ " unions the final tables. Or declare them as one source table: with `source_table: [" ~ (tables | join(", "))
        ~ "]` where they share a raw table, else over a view that unions the raw tables, without `arrival`."
    ]) }}
{%- endmacro %}


{#- dbt's options of snapshots that mean nothing here, hooks that change the history, and where its events come from. -#}
{% macro _history_problems(node) -%}
    {%- set problems = cdc._hook_problems(node) + cdc._embedded_problems(node) + cdc._format_problems(node) -%}
    {%- set above = cdc._first_above(node) -%}
    {%- if above -%}{%- do problems.extend(cdc._source_problems(node, above)) -%}{%- endif -%}
    {%- set deletes = "deletes come as events, and close the version of their row. Remove it." -%}
    {%- set order = "`strategy: cdc.scd2` takes the order and the tracked columns from the declaration. Remove it." -%}
    {%- for option, reason in {
        "dbt_valid_to_current": "`dbt_valid_to` of an open version is NULL."
            ~ " Remove it, and write `coalesce(dbt_valid_to, ...)` in a model that reads the history.",
        "snapshot_meta_column_names": "the columns have dbt's own names. Remove it, and rename them in a model that reads"
            ~ " the history.",
        "hard_deletes": deletes,
        "invalidate_hard_deletes": deletes,
        "updated_at": order,
        "check_cols": order,
    }.items() -%}
        {%- set given = node.config.get(option) -%}
        {%- if given is mapping -%}{%- set given = given.values() | select | list -%}{%- endif -%}
        {%- if given and given != "ignore" -%}
            {%- do problems.append(node.name ~ ": it has `" ~ option ~ "`; " ~ reason) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{#-
    Hooks that write to a table which holds the state of its rows. A final table behind a history may have them: it is compared
    with its history as a whole then.
-#}
{% macro _hook_problems(node) -%}
    {%- set problems = [] -%}
    {%- set words = "(update|merge\\s+into|delete\\s+from|insert\\s+(into|overwrite)(\\s+table)?|truncate\\s+table)" -%}
    {%- set writes = "(?is)\\b" ~ words ~ "\\s+\\{\\{-?\\s*this\\b" -%}
    {%- for hook in cdc._as_list(node.config.get("pre-hook")) + cdc._as_list(node.config.get("post-hook")) -%}
        {%- set sql = hook if hook is string else hook.sql -%}
        {%- if modules.re.search(writes, sql) -%}
            {%- do problems.append(node.name ~ ": its hook `" ~ sql ~ "` changes rows that later events are applied to. Make that"
                ~ " change in a model that reads " ~ node.name ~ ".") -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{#-
    What dbt does after it has written a table, and a Spark inside its process cannot: the table would be there and its build fail.
-#}
{% macro _embedded_problems(node) -%}
    {%- set problems = [] -%}
    {%- if not cdc._is_embedded() -%}
        {{ return(problems) }}
    {%- endif -%}
    {%- if node.config.get("grants") -%}
        {%- do problems.append(node.name ~ ": it has `grants`, and a Spark inside dbt's process has no users to grant anything to."
            ~ " Remove them, or set `+grants` in dbt_project.yml under a condition on `target.name`.") -%}
    {%- endif -%}
    {%- set not_null = [] -%}
    {#- dbt applies constraints under a contract only. -#}
    {%- if node.config.get("contract") and node.config.contract.enforced -%}
        {%- for column in node.columns.values() -%}
            {%- for constraint in column.constraints or [] if constraint.type | string == "not_null" -%}
                {%- do not_null.append(column.name) -%}
            {%- endfor -%}
        {%- endfor -%}
        {%- for constraint in node.constraints or [] if constraint.type | string == "not_null" -%}
            {%- do not_null.extend(constraint.columns or []) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- for name in not_null | unique -%}
        {%- set at = node.name ~ ": `" ~ name ~ "` has the constraint " -%}
        {%- do problems.append(at ~ "`not_null`, which Delta does not add to a table that is there."
            ~ " Declare a check on the model: `constraints: [{type: check, name: " ~ name ~ "_is_there, expression: \"" ~ name
            ~ " is not null\"}]`.") -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{#- Whether Spark runs inside dbt's process. -#}
{% macro _is_embedded() -%}
    {{ return(adapter.dispatch("is_embedded", "cdc")()) }}
{%- endmacro %}


{% macro default__is_embedded() -%}
    {{ return(false) }}
{%- endmacro %}


{% macro sparkcdc__is_embedded() -%}
    {{ return(adapter.is_embedded()) }}
{%- endmacro %}
