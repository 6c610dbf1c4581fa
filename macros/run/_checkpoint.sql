{#-
    The checkpoint of a table says how far it has read. It is metadata of the table's own commit, so that it can never be ahead of
    the rows: user metadata with Delta, a property of the snapshot with Iceberg. It names its table: one that another table's
    write picked up from a shared session is ignored. A lost checkpoint only costs reading again, for every step gives the same
    result when repeated.

    It stays in the session behind a build's statement that created a table, or failed. Whoever changes the table in that session
    makes a commit that carries it, too: a checkpoint therefore names the operation that it was made for, and is ignored in
    commits of others.

    Returns the newest one, with `at`, the version of the table, and without anything else where there is none. A write of
    somebody else makes older checkpoints void: what they say was read may be gone.
-#}
{% macro _read_checkpoint(relation) -%}
    {%- set at = {} -%}
    {%- for limit in [5, none] -%}
        {%- for commit in cdc._newest_commits(relation, limit) -%}
            {%- do at.setdefault("at", commit["version"]) -%}
            {%- set checkpoint = cdc._checkpoint_of(commit, relation) -%}
            {#- Maintenance can only have picked up what a run that failed left in the session. -#}
            {%- set is_written = commit["operation"] == "SET TBLPROPERTIES" or commit["operation"] not in cdc._maintenance() -%}
            {%- if is_written and checkpoint -%}
                {%- set other = cdc._unseen_checkpoint(relation, checkpoint, commit["version"]) -%}
                {%- set found = dict(checkpoint, written_at=commit["version"]) if other is none else other -%}
                {%- for name in ["set_back", "base"] -%}{%- do found.pop(name, none) -%}{%- endfor -%}
                {{ return(dict(found, at=at.at)) }}
            {%- elif commit["operation"] not in cdc._maintenance() -%}
                {{ return(at) }}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(at) }}
{%- endmacro %}


{#-
    The checkpoint that counts in place of a build's which had read an older version (its `base`): that with which `cdc_replay` or
    `cdc_rewind` has set the table back since; an empty one where another program has written since, and the build was killed
    before it could say so. None where there is no such.
-#}
{% macro _unseen_checkpoint(relation, checkpoint, version) -%}
    {%- set base = checkpoint.get("base") -%}
    {%- if base is not none and base < version - 1 -%}
        {%- for commit in cdc._commits_since(relation, base).commits if commit["version"] < version -%}
            {%- set other = cdc._checkpoint_of(commit, relation) -%}
            {%- if other.get("set_back") -%}
                {{ return(dict(other, written_at=commit["version"])) }}
            {%- elif not other and commit["operation"] not in cdc._maintenance() -%}
                {{ return({}) }}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(none) }}
{%- endmacro %}


{#- The checkpoint of a table that one of its commits carries; empty where it carries none, or one of another operation. -#}
{% macro _checkpoint_of(commit, relation) -%}
    {%- set found = fromjson(commit["userMetadata"] or "{}", {}) -%}
    {%- set is_own = found is mapping and found.get("cdc") == relation | string
        and commit["operation"].endswith(found.get("operation", "")) -%}
    {{ return(found if is_own else {}) }}
{%- endmacro %}


{#-
    The text of a checkpoint.
      operation   how Delta's name for the operation of its commit ends; empty where only one statement can carry it. Iceberg has no
                  names for operations: a checkpoint counts once there
    In the statement `set` a semicolon would end the value, and Spark puts variables into it.
-#}
{% macro _checkpoint_text(relation, position, operation="") -%}
    {%- set text = tojson(dict(position, cdc=relation | string, operation="" if cdc._is_iceberg(relation) else operation)) -%}
    {{ return(text | replace(";", "\\u003b") | replace("${", "\\u0024{")) }}
{%- endmacro %}


{#- The checkpoint for the next commit of the session. -#}
{% macro _set_checkpoint(relation, position, operation="") -%}
    {%- do run_query("set " ~ cdc._checkpoint_setting(relation) ~ "=" ~ cdc._checkpoint_text(relation, position, operation)) -%}
{%- endmacro %}


{#- The setting of a session whose value the commits of a table carry. -#}
{% macro _checkpoint_setting(relation) -%}
    {{ return("`spark.sql.iceberg.snapshot-property.cdc.checkpoint`" if cdc._is_iceberg(relation)
        else "spark.databricks.delta.commitInfo.userMetadata") }}
{%- endmacro %}


{#- Runs a statement whose commit carries a checkpoint, of which nothing stays in the session. -#}
{% macro _commit_with_checkpoint(relation, position, operation, statement) -%}
    {%- do cdc._set_checkpoint(relation, position, operation) -%}
    {%- do run_query(statement) -%}
    {%- do run_query("reset " ~ cdc._checkpoint_setting(relation)) -%}
{%- endmacro %}


{#- How Delta's name for the creation of a table from a query ends. -#}
{% macro _creation() -%}
    {{ return("TABLE AS SELECT") }}
{%- endmacro %}


{#-
    Clears what a run that failed has left in the session. A commit of this run, such as that of a new column, would otherwise
    carry a checkpoint whose rows were never written.
-#}
{% macro _clear_checkpoint() -%}
    {{ return(adapter.dispatch("clear_checkpoint", "cdc")()) }}
{%- endmacro %}


{% macro default__clear_checkpoint() -%}
    {%- do run_query("reset spark.databricks.delta.commitInfo.userMetadata") -%}
{%- endmacro %}


{#- Each node has a session of its own. -#}
{% macro sparkcdc__clear_checkpoint() -%}{%- endmacro %}


{#-
    Writes a checkpoint by itself, where there is nothing else to write and it says more than the last one. Delta makes no commit
    of a write without rows.
-#}
{% macro _commit_checkpoint(relation, position, last) -%}
    {%- if not cdc._says_more(position, last) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set is_committed = cdc._commit_position(relation, position, last.at) -%}
    {%- if is_committed -%}
        {%- do cdc._refuse_foreign_writes(relation, last.at) -%}
    {%- else -%}
        {%- do cdc._refuse_other_writer(relation, last.at) -%}
    {%- endif -%}
{%- endmacro %}


{#- What a checkpoint that was read says of its table, but for some names. -#}
{% macro _position_of(checkpoint, without) -%}
    {%- set position = dict(checkpoint) -%}
    {%- for name in ["at", "written_at"] + without -%}{%- do position.pop(name, none) -%}{%- endfor -%}
    {{ return(position) }}
{%- endmacro %}


{#- Whether a checkpoint says more than the last one. What a run did is none of that. -#}
{% macro _says_more(position, last) -%}
    {%- for name, value in position.items() if name != "run" and last.get(name) != value -%}{{ return(true) }}{%- endfor -%}
    {{ return(false) }}
{%- endmacro %}


{#-
    Notes what a run that found nothing new was asked for: another declaration, or a raw table that somebody else has committed to.
    The next run would look for new events again. Beside another writer nothing is noted: that costs this one look.
-#}
{% macro _note_nothing_new(relation, window, checkpoint) -%}
    {%- set position = cdc._position_of(dict(checkpoint, **window.position), ["part", "split"]) -%}
    {%- if cdc._says_more(position, checkpoint) and not cdc._writes_since(relation, checkpoint.at)
        and cdc._commit_position(relation, position, checkpoint.at) -%}
        {%- do cdc._refuse_foreign_writes(relation, checkpoint.at) -%}
    {%- endif -%}
{%- endmacro %}


{#- For a run whose commit was not made: its rows hold for the version that they were computed from. -#}
{% macro _refuse_other_writer(relation, version) -%}
    {%- do cdc._refuse_foreign_writes(relation, version) -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: another build wrote " ~ relation ~ " while this one ran. Run it again when the other one is done."
    ) -%}
{%- endmacro %}


{#-
    The commit of a checkpoint alone. Returns whether it was made: none is made where `cdc_replay` has set the table back since a
    version, and of Iceberg's tables where somebody wrote since then.
      version   none for a checkpoint that says of no row that it was read
-#}
{% macro _commit_position(relation, position, version=none) -%}
    {{ return(adapter.dispatch("commit_position", "cdc")(relation, dict(position, base=version), version)) }}
{%- endmacro %}


{% macro default__commit_position(relation, position, version) -%}
    {%- do cdc._commit_with_checkpoint(relation, position, "SET TBLPROPERTIES", cdc._checkpoint_statement(relation)) -%}
    {{ return(true) }}
{%- endmacro %}


{% macro sparkcdc__commit_position(relation, position, version) -%}
    {%- if cdc._is_iceberg(relation) -%}
        {{ return(adapter.commit_checkpoint(relation | string, cdc._checkpoint_text(relation, position), version)) }}
    {%- endif -%}
    {{ return(adapter.commit_position(
        relation | string, cdc._checkpoint_statement(relation), cdc._checkpoint_text(relation, position, "SET TBLPROPERTIES"), version
    )) }}
{%- endmacro %}


{#- A statement whose commit changes no row of a Delta table. -#}
{% macro _checkpoint_statement(relation) -%}
    {{ return("alter table " ~ relation ~ " set tblproperties ('cdc.checkpoint' = " ~ cdc._literal(invocation_id) ~ ")") }}
{%- endmacro %}


{#-
    Commits a checkpoint that says of no row that it was read, so that older ones do not count. A lost checkpoint costs reading
    again, a lost one of these would not: in a session that several nodes share, another node can reset the setting before this
    commit is made.
-#}
{% macro _void_checkpoint(relation) -%}
    {%- for attempt in range(10) -%}
        {%- do cdc._commit_position(relation, {}) -%}
        {%- if cdc._checkpoint_of(cdc._newest_commits(relation, 1)[0], relation) -%}
            {{ return(none) }}
        {%- endif -%}
    {%- endfor -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: " ~ relation ~ " was changed by another program, and other nodes of this session keep resetting"
        ~ " spark.databricks.delta.commitInfo.userMetadata, which keeps that from being noted in its log. Nothing else was"
        ~ " written. Build it alone: dbt build --threads 1 --select +" ~ relation.identifier
    ) -%}
{%- endmacro %}


{#-
    Stops a run beside which a program that is no build wrote rows since a version. The run's own checkpoint may be newer and
    would hide what that program did: another one, which says of no row that it was read, has the next build look at everything.
-#}
{% macro _refuse_foreign_writes(relation, version) -%}
    {%- if cdc._writes_since(relation, version, by_builds=false) -%}
        {%- do cdc._void_checkpoint(relation) -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: another program wrote " ~ relation ~ " at the same time as this build. Run the build again: it compares"
            ~ " the table with everything that it is built from."
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#- The newest commits of a table, the last one first: version, operation and userMetadata. -#}
{% macro _newest_commits(relation, limit=none) -%}
    {{ return(adapter.dispatch("newest_commits", "cdc")(relation, limit)) }}
{%- endmacro %}


{% macro default__newest_commits(relation, limit) -%}
    {{ return(run_query("describe history " ~ relation ~ (" limit " ~ limit if limit else "")).rows) }}
{%- endmacro %}


{% macro sparkcdc__newest_commits(relation, limit) -%}
    {{ return(adapter.newest_commits(relation | string, limit)) }}
{%- endmacro %}


{#- The newest version of a table. -#}
{% macro _table_version(relation) -%}
    {{ return(cdc._newest_commits(relation, 1)[0]["version"]) }}
{%- endmacro %}


{#-
    The versions since another one in which somebody wrote rows; maintenance writes none. What the log has lost may have.
      by_builds   whether those of this package's builds count, too, which leave a checkpoint, and those in which `cdc_replay` has
                  set the table back
-#}
{% macro _writes_since(relation, version, by_builds=true) -%}
    {%- set writes = [] -%}
    {%- set later = cdc._commits_since(relation, version) -%}
    {%- for commit in later.commits -%}
        {%- set checkpoint = cdc._checkpoint_of(commit, relation) -%}
        {%- set writes_rows = commit["operation"] not in cdc._maintenance() and (by_builds or not checkpoint) -%}
        {%- if writes_rows or (by_builds and checkpoint.get("set_back")) -%}
            {%- do writes.append(commit["version"]) -%}
        {%- endif -%}
    {%- endfor -%}
    {#- Commits that the log has no more may have written. -#}
    {%- if not later.are_all -%}
        {%- do writes.append(version + 1) -%}
    {%- endif -%}
    {{ return(writes) }}
{%- endmacro %}


{#- The commits since a version, and whether the log still has all of them (`are_all`). -#}
{% macro _commits_since(relation, version) -%}
    {{ return(adapter.dispatch("commits_since", "cdc")(relation, version)) }}
{%- endmacro %}


{% macro default__commits_since(relation, version) -%}
    {%- set gap = cdc._table_version(relation) - version -%}
    {%- set commits = [] -%}
    {%- for commit in (cdc._newest_commits(relation, gap) if gap > 0 else []) if commit["version"] > version -%}
        {%- do commits.append(commit) -%}
    {%- endfor -%}
    {{ return({"commits": commits, "are_all": commits | length >= gap}) }}
{%- endmacro %}


{% macro sparkcdc__commits_since(relation, version) -%}
    {{ return(adapter.commits_since(relation | string, version)) }}
{%- endmacro %}


{#- Operations that change no rows, of Delta and, the last one, of Iceberg. -#}
{% macro _maintenance() -%}
    {{ return(["OPTIMIZE", "REORG", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "CHANGE COLUMN",
        "CHANGE COLUMNS", "ADD COLUMNS", "RENAME COLUMN", "UPGRADE PROTOCOL", "COMPUTE STATS", "CLUSTER BY", "ADD CONSTRAINT",
        "DROP CONSTRAINT", "DROP FEATURE", "replace"]) }}
{%- endmacro %}
