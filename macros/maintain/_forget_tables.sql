{#-
    Files: what the newest versions do not need goes, with the log before them. Each table ends with a checkpoint that knows the new
    versions of what it reads, so that the next build goes on from there.
-#}
{% macro _forget_tables(subject, done, behind, erasure_id) -%}
    {%- set d = subject.declaration -%}
    {%- set versions = {} -%}
    {%- set highest = cdc._highest_place(d) if d.arrival else none -%}
    {%- for role in ["raw", "snapshot", "amendments", "keys", "tombstones", "history", "final", "changelog"] -%}
        {%- for table in done if table.role == role -%}
            {%- set position = {} -%}
            {%- if role in ["keys", "history", "final", "changelog"] -%}
                {%- set checkpoint = cdc._read_checkpoint(table.node and cdc._relation_of(table.node)) -%}
                {%- do position.update(dict(checkpoint, base=checkpoint.at)) -%}
                {#- Without one, all is read again. -#}
                {%- if "fingerprint" in checkpoint -%}
                    {%- do position.update({"fingerprint": none, "declared": none}) -%}
                {%- endif -%}
                {#- A history that follows its rows reads the runs of the resolver, whose numbers stay what they are. -#}
                {%- if role == "keys" or (role == "history" and not d.key_changes) or (role == "final" and not d.history) -%}
                    {#- There may be rows that were not read yet, and the log begins with the version of now. -#}
                    {%- do position.update({"raw_version": none}) -%}
                    {%- if highest is not none and position.get("read_to") is not none and position.read_to > highest -%}
                        {%- do position.update({"read_to": highest}) -%}
                    {%- endif -%}
                {%- elif table.above in versions -%}
                    {%- do position.update({"version": none if table.name in behind else versions[table.above]}) -%}
                    {%- if role == "changelog" -%}
                        {%- do position.update({"first": false,
                            "commit": cdc._commit_id(cdc._relation_of(graph.nodes[table.above]), versions[table.above])}) -%}
                    {%- endif -%}
                {%- endif -%}
            {%- endif -%}
            {%- set text = cdc._checkpoint_text(table.relation, position) if position else "{}" -%}
            {%- set forgotten = adapter.forget_past(table.relation, erasure_id, text, position.get("base"), cdc._maintenance()) -%}
            {%- if table.node -%}{%- do versions.update({table.node.unique_id: forgotten.version}) -%}{%- endif -%}
            {%- do table.update({"removed": forgotten.files}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {#- Other tables of the same raw table would find that its sequence fell. -#}
    {%- for node in cdc._event_readers() if highest is not none and cdc._declared_names(node) != [d.table]
        and cdc._upstream_declaration(node) and cdc._upstream_declaration(node).relation == d.relation -%}
        {%- set relation = cdc._relation_of(node) -%}
        {%- set checkpoint = cdc._read_checkpoint(relation) if load_relation(relation) is not none else {} -%}
        {%- if checkpoint.get("read_to") is not none and checkpoint.read_to > highest -%}
            {%- do cdc._commit_checkpoint(relation, dict(checkpoint, read_to=highest, raw_version=none, fingerprint=none),
                checkpoint) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}


{#-
    Whether a final table has changes of its history to read, erasures apart. If so, its next run compares it with the whole
    history.
-#}
{% macro _is_behind_history(table) -%}
    {%- set history = cdc._relation_of(graph.nodes[table.above]) -%}
    {%- set version = cdc._read_checkpoint(table.relation).get("version") -%}
    {%- if version is none -%}
        {{ return(true) }}
    {%- endif -%}
    {%- set later = cdc._commits_since(history, version) -%}
    {%- for commit in later.commits if commit["operation"] not in cdc._maintenance()
        and "erasure" not in fromjson(commit["userMetadata"] or "{}", {}) -%}
        {{ return(true) }}
    {%- endfor -%}
    {{ return(not later.are_all) }}
{%- endmacro %}


{#- Searches the files, writes the certificate, and marks the keys as erased. -#}
{% macro _certify(subject, done, values, erased, erasure_id) -%}
    {%- set d = subject.declaration -%}
    {%- set relation = cdc._erasures_relation("cdc_erasure_certificates") -%}
    {%- set rows, entries = [], [] -%}
    {%- for table in done -%}
        {%- set found = adapter.search_landed_files(table.relation, values.whole) if table.role == "landed"
            else adapter.search_files(table.relation, values.whole, table.get("erased"), values.beginnings) -%}
        {%- do entries.append({"role": table.role, "table": table.relation, "rows_removed": table.rows,
            "files_rewritten": table.files,
            "files_removed": table.removed, "files_searched": found.searched, "files_holding": found.holding | length}) -%}
        {%- do rows.append("(" ~ ([cdc._literal(erasure_id), "current_timestamp()", cdc._literal(d.table), erased.rows | length,
            cdc._literal(table.role), cdc._literal(table.relation), table.rows, table.files, table.removed, values.whole | length,
            found.searched, found.holding | length] | join(", ")) ~ ")") -%}
        {%- do log("cdc: " ~ table.relation ~ ": " ~ table.rows ~ " rows erased, " ~ table.files ~ " files rewritten, "
            ~ table.removed
            ~ " removed; " ~ (found.holding | length) ~ " of " ~ found.searched ~ " files hold the person"
            ~ (": " ~ (found.holding[:5] | join(", ")) if found.holding), info=true) -%}
    {%- endfor -%}
    {%- do cdc._create_if_missing(relation, cdc._null_row({"erasure_id": "string", "erased_at": "timestamp", "table_name": "string",
        "keys": "bigint", "role": "string", "relation": "string", "rows_removed": "bigint", "files_rewritten": "bigint",
        "files_removed": "bigint", "values_searched": "bigint", "files_searched": "bigint", "files_holding": "bigint"})) -%}
    {%- do run_query("insert into " ~ relation ~ " values " ~ (rows | join(", "))) -%}
    {%- do run_query("update " ~ cdc._listed_in(d) ~ " set is_done = true where not is_done and " ~ cdc._is_listed_table(d)) -%}
    {%- set file = adapter.write_certificate(erasure_id, {"erasure_id": erasure_id, "source_table": d.table,
        "keys": erased.rows | length,
        "values_searched": values.whole | length, "tables": entries, "may_hold_the_person_too": subject.others | sort}) -%}
    {%- do log("cdc: the certificate is in " ~ relation ~ " and in " ~ file
        ~ ". This command's arguments are in the log of dbt and in the history of the shell.", info=true) -%}
{%- endmacro %}
