{#-
    `dbt run-operation cdc_rewind --args '{table: customers_history, run: <run_id>, dry_run: false}'`: brings a history and its
    final tables, or a final table without a history, back to before a run. Later runs are undone with it. Each table is restored
    in one commit that has the checkpoint of that time, so that the next build reads on from there. An Iceberg table is rolled
    back to the snapshot of that time.

    The history goes last: until it is restored it shows the run, and an operation that was interrupted can be repeated.
-#}
{% macro cdc_rewind(table=none, run=none, dry_run=true) -%}
    {{ return(adapter.dispatch("cdc_rewind", "cdc")(table, run, dry_run)) }}
{%- endmacro %}


{% macro default__cdc_rewind(table, run, dry_run) -%}
    {%- if table is none -%}
        {%- do exceptions.raise_compiler_error("cdc: cdc_rewind needs a `table`, which is a history or a final table without one,"
            ~ " and the `run` to undo.") -%}
    {%- endif -%}
    {%- set node = cdc._managed_nodes(table)[0] -%}
    {%- do cdc._refuse_rewind(node) -%}
    {%- set relation = cdc._relation_of(node) -%}
    {%- set commits = cdc._live_commits(relation) -%}
    {%- set undone = cdc._runs_since(commits, run) -%}
    {%- if run not in undone -%}
        {%- do cdc._refuse_unknown_run(node, commits, run) -%}
    {%- endif -%}
    {%- set first = commits | selectattr("run", "equalto", run) | map(attribute="version") | min -%}
    {%- if first == commits | map(attribute="version") | min and not commits[-1].is_first -%}
        {%- do exceptions.raise_compiler_error("cdc: the run " ~ run ~ " made the oldest snapshot of " ~ node.name ~ " that has not"
            ~ " expired, so there is nothing to go back to. Nothing was written. Rewind a later run.") -%}
    {%- endif -%}
    {%- if first == commits | map(attribute="version") | min -%}
        {%- do exceptions.raise_compiler_error("cdc: the run " ~ run ~ " built " ~ node.name ~ ", and there is nothing before it."
            ~ " Nothing was written. To start over, drop the table and build it: dbt build --select " ~ node.name) -%}
    {%- endif -%}
    {%- set verb = "would undo" if dry_run else "undoes" -%}
    {%- do log("cdc: " ~ node.name ~ ": " ~ verb ~ " the runs " ~ (undone | join(", ")), info=true) -%}
    {%- for final in cdc._final_nodes(node) -%}
        {%- set final_relation = cdc._relation_of(final) -%}
        {%- set final_commits = cdc._live_commits(final_relation) -%}
        {%- set later = [] -%}
        {%- for commit in final_commits
            if commit.checkpoint.get("version") is not none and commit.checkpoint.version >= first -%}
            {%- do later.append(commit.version) -%}
        {%- endfor -%}
        {%- if later and later | min == final_commits | map(attribute="version") | min -%}
            {%- do log("cdc: " ~ final.name ~ " was built later: the next build brings it back", info=true) -%}
        {%- elif later -%}
            {%- do cdc._restore(final_relation, final_commits, (later | min) - 1, dry_run) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if node.resource_type == "snapshot" -%}
        {%- do cdc._restore_tombstones(cdc._tombstones_of(relation), cdc._written_before(commits, first), dry_run) -%}
    {%- endif -%}
    {%- do cdc._restore(relation, commits, first - 1, dry_run) -%}
    {%- if dry_run -%}
        {%- do log("cdc: nothing was written; run with dry_run: false", info=true) -%}
    {%- endif -%}
{%- endmacro %}


{% macro _refuse_rewind(node) -%}
    {%- set d = cdc._upstream_declaration(node) -%}
    {%- if node.resource_type != "snapshot" and (not d or d.history) -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ node.name ~ " is built from its history. Name the history, "
            ~ cdc._node_above(node).name ~ ": both go back together.") -%}
    {%- elif d and d.key_changes -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ node.name ~ " reads events through the resolver, which cannot be set back."
            ~ " Correct the raw events and resolve them again, which changes only the rows concerned: dbt build --full-refresh --select "
            ~ node.depends_on.nodes[0].split(".")[-1] ~ ", then dbt build.") -%}
    {%- endif -%}
{%- endmacro %}


{#- Says which runs there are. -#}
{% macro _refuse_unknown_run(node, commits, run) -%}
    {%- set lines = [] -%}
    {%- set seen = [] -%}
    {%- for commit in commits if commit.run and commit.run not in seen -%}
        {%- do seen.append(commit.run) -%}
        {%- do lines.append("\n  " ~ commit.run ~ "  " ~ commit.timestamp) -%}
    {%- endfor -%}
    {%- do exceptions.raise_compiler_error("cdc: " ~ node.name ~ " has no commit of a run `" ~ run ~ "`, or that run was undone."
        ~ " Nothing was written. Name one of its runs, which `cdc_runs` lists as well:" ~ (lines[:10] | join)) -%}
{%- endmacro %}


{#- The final tables that are made of a history. The next build brings one of plain Parquet files back: it has no versions. -#}
{% macro _final_nodes(history) -%}
    {%- set finals = [] -%}
    {%- for node in cdc._managed_nodes()
        if node.depends_on.nodes | first == history.unique_id and not cdc._is_parquet(node) -%}
        {%- set relation = load_relation(cdc._relation_of(node)) -%}
        {%- if relation is not none and not relation.is_view -%}{%- do finals.append(node) -%}{%- endif -%}
    {%- endfor -%}
    {{ return(finals) }}
{%- endmacro %}


{#-
    The commits that made a table what it is, the newest one first: those that a rewind undid are not among them. Each with
    `version`, `timestamp`, `operation`, its `checkpoint` (empty where it has none) and the `run` that the checkpoint names.
-#}
{% macro _live_commits(relation) -%}
    {%- set live = [] -%}
    {%- set at = {} -%}
    {%- for commit in cdc._all_commits(relation) -%}
        {%- if commit["version"] <= at.get("below", commit["version"]) -%}
            {%- set checkpoint = cdc._checkpoint_of(commit, relation) -%}
            {%- if checkpoint.get("rewound_to") is not none and commit["operation"] == "RESTORE" -%}
                {%- do at.update({"below": checkpoint.rewound_to}) -%}
            {%- else -%}
                {%- do live.append({
                    "version": commit["version"] | int,
                    "timestamp": commit["timestamp"],
                    "operation": commit["operation"],
                    "id": commit.get("id"),
                    "is_first": commit.get("is_first") is not false,
                    "checkpoint": checkpoint,
                    "run": (checkpoint.get("run") or {}).get("id"),
                }) -%}
                {%- if commit["operation"] == "RESTORE" -%}{{ return(live) }}{%- endif -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(live) }}
{%- endmacro %}


{% macro _all_commits(relation) -%}
    {{ return(cdc._newest_commits(relation) if cdc._is_iceberg(relation) else cdc.default__newest_commits(relation, none)) }}
{%- endmacro %}


{#- A run and those after it, the newest one first; none where the run is not among them. -#}
{% macro _runs_since(commits, run) -%}
    {%- set runs = [] -%}
    {%- set of_run = commits | selectattr("run", "equalto", run) | map(attribute="version") | list -%}
    {%- for commit in commits if of_run and commit.version >= of_run | min and commit.run and commit.run not in runs -%}
        {%- do runs.append(commit.run) -%}
    {%- endfor -%}
    {{ return(runs) }}
{%- endmacro %}


{#- When the table was last written, or its checkpoint moved, before a version. -#}
{% macro _written_before(commits, version) -%}
    {%- for commit in commits if commit.version < version -%}
        {%- if commit.checkpoint or commit.operation not in cdc._maintenance() -%}{{ return(commit.timestamp) }}{%- endif -%}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- The checkpoint that counted at a version: a write of another program makes older ones void, as in `_read_checkpoint`. -#}
{% macro _checkpoint_at(commits, version) -%}
    {%- for commit in commits if commit.version <= version -%}
        {%- if commit.checkpoint or commit.operation not in cdc._maintenance() -%}{{ return(commit.checkpoint) }}{%- endif -%}
    {%- endfor -%}
    {{ return({}) }}
{%- endmacro %}


{#- Restores a table in one commit that has the checkpoint of that time. The next build looks at its input again in any case. -#}
{% macro _restore(relation, commits, version, dry_run) -%}
    {%- set checkpoint = cdc._checkpoint_at(commits, version) -%}
    {%- set verb = "would go" if dry_run else "goes" -%}
    {%- do log("cdc: " ~ relation.identifier ~ ": " ~ verb ~ " back from version " ~ commits[0].version ~ " to version " ~ version,
        info=true) -%}
    {%- if not dry_run and cdc._is_iceberg(relation) -%}
        {#- The snapshot has its checkpoint. -#}
        {%- do adapter.roll_back_iceberg(relation | string, (commits | selectattr("version", "le", version) | first).id) -%}
    {%- elif not dry_run -%}
        {%- set known = dict(cdc._position_of(checkpoint, ["base"]), fingerprint=none, declared=none) if checkpoint else {} -%}
        {%- do cdc._commit_with_checkpoint(
            relation, dict(known, rewound_to=version, set_back=true), "RESTORE",
            "restore table " ~ relation ~ " to version as of " ~ version
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#- Tombstones are written before the history that they belong to: those that are younger than its last commit go. -#}
{% macro _restore_tombstones(relation, at, dry_run) -%}
    {%- if load_relation(relation) is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set commits = cdc._all_commits(relation) -%}
    {%- set kept = [] -%}
    {%- for commit in commits if at is not none and commit["timestamp"] <= at -%}
        {%- do kept.append(commit["version"]) -%}
    {%- endfor -%}
    {%- if kept and kept[0] == commits[0]["version"] -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set verb = "would go" if dry_run else "goes" -%}
    {%- do log("cdc: " ~ relation.identifier ~ ": " ~ verb ~ " back from version " ~ commits[0]["version"] ~ " to "
        ~ ("version " ~ kept[0] if kept else "no rows"), info=true) -%}
    {%- if not dry_run and kept and cdc._is_iceberg(relation) -%}
        {%- do adapter.roll_back_iceberg(relation | string, (commits | selectattr("version", "equalto", kept[0]) | first)["id"]) -%}
    {%- elif not dry_run -%}
        {%- do run_query("restore table " ~ relation ~ " to version as of " ~ kept[0] if kept else "delete from " ~ relation) -%}
    {%- endif -%}
{%- endmacro %}
