{#-
    What is to change in a final table: a `step` of rows with `_current_op` and `_is_known`, whether they are `few`, and what
    `_write_current` takes of them.

    The changes are those that the history's own run has at hand; else those that the history's change feed gives. The two tables
    are compared as a whole where neither tells everything: other columns, a lost checkpoint, a feed whose files are gone, another
    open version at a key that a row left.
      read     the version of the history after which its changes are all that there is to do; none where they are not
      now      the version that is read now
      writes   the versions between them in which the history was written
-#}
{% macro _current_changes(spec, node, history, names, read, now, writes) -%}
    {%- set follows = "_entity_id" in spec.types and "_entity_id" not in spec.key_columns | map("lower") -%}
    {%- set published = cdc._published_changes(history, writes) if read is not none else none -%}
    {%- if published and not follows -%}
        {%- set selected = cdc._final_columns(node, names, {"_cdc_updated_at": "dbt_updated_at"}) -%}
        {{ return({"step": published, "few": true, "selected": selected, "predicates": []}) }}
    {%- endif -%}
    {%- set step, few = none, true -%}
    {%- if published -%}
        {%- set keyed_sql = cdc._changes_by_key(node, published, spec.key_columns, names) -%}
        {%- set step = cdc._step(spec, "changes", keyed_sql, true) -%}
    {%- elif read is not none and cdc._has_feed(history, read) -%}
        {%- set few = not cdc._is_large(history) -%}
        {%- set changed_rows = cdc._changed_rows(node, history, read, now) -%}
        {%- set changed_sql = cdc._effective_changes(spec.relation, changed_rows, spec.key_columns, names) -%}
        {%- set step = cdc._feed_step(spec, history, read, changed_sql, few) -%}
    {%- endif -%}
    {%- if step is not none and (not follows or cdc._is_as_in_history(spec, history, step)) -%}
        {{ return({"step": step, "few": few, "selected": none, "predicates": []}) }}
    {%- endif -%}
    {%- set compared_sql = cdc._compared_rows(node, history, spec.relation, names, spec.key_columns) -%}
    {%- set step = cdc._step(spec, "changes", compared_sql, false, scans_table=true) -%}
    {#- What is written as a new row must not find the rows that are deleted for it. -#}
    {%- set predicates = ["(DBT_INTERNAL_SOURCE._current_op = 'D' or DBT_INTERNAL_SOURCE._is_known)"] -%}
    {{ return({"step": step, "few": false, "selected": none, "predicates": predicates}) }}
{%- endmacro %}


{#- The changes of a history that its own run left for its final table, if they are all there were. -#}
{% macro _published_changes(history, writes) -%}
    {{ return(adapter.dispatch("published_changes", "cdc")(history, writes)) }}
{%- endmacro %}


{% macro default__published_changes(history, writes) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__published_changes(history, writes) -%}
    {{ return(adapter.published_changes(history | string, writes)) }}
{%- endmacro %}


{#-
    The changes of a history whose rows are followed through their keys, by key: a row that moves leaves its key, to another row or
    to none. Where a row left its key, all keys count as known, whatever the table has there.
-#}
{% macro _changes_by_key(node, published, keys, names) -%}
    {%- set columns = cdc._quoted_all(keys) | join(", ") -%}
    {%- set selected = cdc._final_columns(node, names, {"_cdc_updated_at": "dbt_updated_at"}) -%}
with published_changes as (
    select * from {{ published.relation }}
),

touched_keys as (
    select {{ columns }}
    from published_changes
    where _is_open and _is_visible
    union
    select {{ cdc._column_list(keys, "__cdc_former_key") }}
    from published_changes
    where _was_open
),

changed_rows as (
    select
        {{ cdc._column_list(keys, "touched_keys") }},
        open_versions.* except ({{ columns }}),
        open_versions.dbt_scd_id is null as __cdc_is_vacated
    from touched_keys
    left join (select * from published_changes where _is_open) as open_versions
        on {{ cdc._same(keys, "touched_keys", "open_versions") }}
    where open_versions.dbt_scd_id is null or open_versions._is_visible
)

select
    {{ selected | join(",\n    ") }},
    if(__cdc_is_vacated, 'D', 'U') as _current_op,
    (select bool_or(_was_open) from published_changes) as _is_known
from changed_rows
{%- endmacro %}


{#-
    Whether a key that is to have a row has one open version in the history, and one that is to have none has none. Events of one
    row at one position can leave two rows open at a key: what one of them left is then the other's.
-#}
{% macro _is_as_in_history(spec, history, changes) -%}
    {%- set key = spec.key_columns[0] -%}
    {%- set end = cdc._literal_end(spec.types[key]) -%}
    {%- set bounds = adapter.bounds(changes, "_current_op", ["U", "D"], key, end) if changes.rows is not none else none -%}
    {%- set others -%}
        select changes._current_op
        from {{ changes.relation }} as changes
        left join (
            select
                {{ cdc._column_list(spec.key_columns) }},
                count(*) as __cdc_open
            from {{ history }}
            where
                _cdc_is_latest
                and _seq_end is null
                and {{ cdc._is_within(bounds, "") }}
            group by {{ cdc._column_list(spec.key_columns) }}
        ) as open_versions on {{ cdc._same(spec.key_columns, "open_versions", "changes") }}
        where coalesce(__cdc_open, 0) <> if(changes._current_op = 'U', 1, 0)
        limit 1
    {%- endset -%}
    {{ return(not cdc._has_rows(others)) }}
{%- endmacro %}


{#- Whether the changes of a history since a version can be read back: of Iceberg as long as no snapshot between them expired. -#}
{% macro _has_feed(history, since) -%}
    {{ return(not cdc._is_iceberg(history) or cdc._commits_since(history, since).are_all) }}
{%- endmacro %}


{#-
    The changes that a history's change feed gives, as a step; none where the feed cannot be read that far back.
      since   the version of the history after which the feed is read
-#}
{% macro _feed_step(spec, history, since, sql, few) -%}
    {%- set step = adapter.dispatch("feed_step", "cdc")(spec, history, since, sql, few) -%}
    {%- if step is none -%}
        {%- do log("cdc: the change feed of " ~ history ~ " cannot be read from version " ~ since ~ " on. " ~ spec.relation
            ~ " is compared with it as a whole.", info=true) -%}
    {%- endif -%}
    {{ return(step) }}
{%- endmacro %}


{#- A statement that fails ends the run: what VACUUM may have removed by now is not asked for. -#}
{% macro default__feed_step(spec, history, since, sql, few) -%}
    {%- set commits = cdc.default__newest_commits(history, cdc._table_version(history) - since + 1) -%}
    {%- set kept = cdc._table_properties(history).get("delta.deletedFileRetentionDuration", "interval 7 days") -%}
    {%- set is_kept = commits and commits[-1]["version"] == since and run_query("select timestamp "
        ~ cdc._literal(commits[-1]["timestamp"]) ~ " > current_timestamp() + interval 1 day - " ~ kept).rows[0][0] -%}
    {{ return(cdc._step(spec, "changes", sql, few, scans_table=true) if is_kept else none) }}
{%- endmacro %}


{% macro sparkcdc__feed_step(spec, history, since, sql, few) -%}
    {{ return(adapter.step_if_it_can("changes", sql, few, few and not spec.is_large)) }}
{%- endmacro %}


{#-
    The keys whose current row is another one since a version of the history: the open version, or that there is none any more. A
    key whose open version did not change is left out.
-#}
{% macro _changed_rows(node, history, read, now) -%}
    {%- set keys = cdc._column_list(cdc._as_list(node.config.get("unique_key"))) -%}
with changes as (
    select
        *,
        {#- A row that is replaced comes as a delete and an insert of one commit. -#}
        row_number() over (
            partition by dbt_scd_id order by _commit_version desc, _change_type in ('delete', 'update_preimage')
        ) as _cdc_newest
    from {{ cdc._row_images(history, read + 1, now) }}
    where _seq_end is null or _change_type not in ('delete', 'update_preimage')
),

candidates as (
    select
        *,
        _cdc_newest = 1 and _seq_end is null and _change_type in ('insert', 'update_postimage') as _cdc_is_current
    from changes
),

last_changes as (
    select
        *,
        row_number() over (partition by {{ keys }} order by _cdc_is_current desc, _commit_version desc) as _cdc_latest
    from candidates
    where _cdc_is_current or _seq_end is null
)

select
    {{ cdc._current_columns(
        node, ["_cdc_newest", "_cdc_latest", "_cdc_is_current", "_change_type", "_commit_version", "_commit_timestamp"]
    ) }},
    if(_cdc_is_current, 'U', 'D') as _current_op
from last_changes
where _cdc_latest = 1
{%- endmacro %}


{#- The changes that change something, and whether the table knows their keys. -#}
{% macro _effective_changes(target, changes, keys, names) -%}
    {%- set of_known = "struct(" ~ cdc._column_list(names, "known") ~ ")" -%}
    {%- set of_changes = "struct(" ~ cdc._column_list(names, "changes") ~ ")" -%}
select
    {{ cdc._column_list(names, "changes") }},
    changes._current_op,
    known._cdc_is_known is not null as _is_known
from ({{ changes }}) as changes
left join (select *, true as _cdc_is_known from {{ target }}) as known on {{ cdc._same(keys, "known", "changes") }}
where
    (changes._current_op = 'U' and (known._cdc_is_known is null or not {{ of_changes }} <=> {{ of_known }}))
    or (changes._current_op = 'D' and known._cdc_is_known)
{%- endmacro %}


{#-
    Every open version that is no row, and every row that is no open version: for a table whose checkpoint is lost or whose
    history was rebuilt. Rows that somebody has written twice are deleted, all of a key, and its open version is written as a new
    row.
-#}
{% macro _compared_rows(node, history, target, names, keys) -%}
    {%- set columns = cdc._column_list(names) -%}
    {%- set keys = keys | map("lower") | list -%}
    {%- set of_known = "struct(" ~ cdc._column_list(names, "known") ~ ")" -%}
    {%- set of_open = "struct(" ~ cdc._column_list(names, "open_versions") ~ ")" -%}
with open_versions as (
    {{ cdc._current_rows(node, history) | indent(4) }}
),

known as (
    select
        *,
        true as _cdc_is_known,
        row_number() over (partition by {{ cdc._column_list(keys) }} order by {{ cdc._column_list(keys) }}) as _cdc_copy,
        count(*) over (partition by {{ cdc._column_list(keys) }}) > 1 as _cdc_is_repeated
    from {{ target }}
),

compared as (
    select
        {%- for name in names %}
        {%- if name | lower in keys %}
        coalesce(open_versions.{{ cdc._quoted(name) }}, known.{{ cdc._quoted(name) }}) as {{ cdc._quoted(name) }},
        {%- else %}
        open_versions.{{ cdc._quoted(name) }},
        {%- endif %}
        {%- endfor %}
        known._cdc_is_known is not null as _cdc_was_known,
        explode(case
            when open_versions._cdc_seq is null then array('D')
            when known._cdc_is_repeated then array('D', 'U')
            else array('U')
        end) as _current_op,
        coalesce(known._cdc_is_repeated, false) as _cdc_is_repeated
    from open_versions
    full outer join (select * from known where _cdc_copy = 1) as known on {{ cdc._same(keys, "open_versions", "known") }}
    where not ({{ of_open }} <=> {{ of_known }}) or known._cdc_is_repeated
)

select
    {{ columns }},
    _current_op,
    _cdc_was_known and (_current_op = 'D' or not _cdc_is_repeated) as _is_known
from compared
{%- endmacro %}
