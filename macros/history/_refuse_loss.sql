{#-
    Stops a rebuild that would remove versions whose events the raw table does not give any more, unless `--vars '{cdc_rebuild:
    true}'`, or the name of the history there, asks for it. A version is found again by its key and the position that began it, so
    that a corrected declaration does not count.
      events   the step with all events that there are
-#}
{% macro _refuse_loss(spec, events) -%}
    {%- if cdc._may_lose_versions(spec.node) -%}
        {{ return(none) }}
    {%- endif -%}
    {#- The label of a row that is followed, and the identity that a row without a key has for one, may be others by now. -#}
    {%- set is_labelled = spec.follows or (spec.declaration and spec.declaration.keyless) -%}
    {%- set found_by = ([] if is_labelled else spec.key_columns) + ["_seq"] -%}
    {%- set found = run_query(
        "select count(*), count_if(events._cdc_is_there is null), cast(max(if(events._cdc_is_there is null, dbt_valid_from, null)) as string) from "
        ~ spec.relation ~ " as history left join (select distinct " ~ cdc._column_list(found_by) ~ ", true as _cdc_is_there from "
        ~ events.relation ~ " as arrived" ~ cdc._without_amendments(spec.declaration, "arrived")
        ~ " where _op in ('I', 'U')) as events on " ~ cdc._same(found_by, "history", "events")
    ).rows[0] -%}
    {%- if found[1] -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: rebuilding " ~ spec.relation ~ " would remove " ~ found[1] ~ " of its " ~ found[0] ~ " versions, the"
            ~ " latest of them from " ~ found[2] ~ ": " ~ (spec.declaration.table if spec.declaration else "its source")
            ~ " does not hold their events any more. No version was removed or changed. Build without --full-refresh, or"
            ~ " set `full_refresh: false` in the snapshot's config, to keep them."
            ~ " To remove them, add --vars '{cdc_rebuild: " ~ spec.node.name ~ "}' to --full-refresh."
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#- Whether the variable `cdc_rebuild` names a history, or all. -#}
{% macro _may_lose_versions(node) -%}
    {%- set given = var("cdc_rebuild", false) -%}
    {%- if given is boolean -%}
        {{ return(given) }}
    {%- endif -%}
    {%- set histories = [] -%}
    {%- for managed in cdc._managed_nodes() if managed.resource_type == "snapshot" -%}
        {%- do histories.append(managed.name) -%}
    {%- endfor -%}
    {%- set names = [given] if given is number else cdc._as_list(given) -%}
    {%- for name in names if name not in histories -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: the variable `cdc_rebuild` is `" ~ given ~ "`, and `" ~ name
            ~ "` is not a history of this project. Use true, or one or more of " ~ (histories | sort | join(", ")) ~ "."
        ) -%}
    {%- endfor -%}
    {{ return(node.name in names) }}
{%- endmacro %}


{#- An anti join that leaves out amendments: one stands at the position of an event, and is not that event. -#}
{% macro _without_amendments(d, alias) -%}
    {%- set amendments = cdc._amendments_of(d) -%}
    {{ return(" left anti join " ~ amendments ~ " as amendments on " ~ alias ~ "._seq = amendments._seq and " ~ alias
        ~ "._event_id = amendments._event_id" if amendments else "") }}
{%- endmacro %}
