{#-
    `dbt run-operation cdc_upgrade --args '{dry_run: false}'`: brings histories that an older version of the package built to the
    columns and the layout of this one, each in one commit, with all their versions. Tables that are as they should be are left
    alone.
-#}
{% macro cdc_upgrade(table=none, dry_run=true) -%}
    {{ return(adapter.dispatch("cdc_upgrade", "cdc")(table, dry_run)) }}
{%- endmacro %}


{% macro default__cdc_upgrade(table, dry_run) -%}
    {%- for node in cdc._managed_nodes(table) if node.resource_type == "snapshot" -%}
        {%- set relation = cdc._relation_of(node) -%}
        {%- set columns = cdc._column_types(relation) if load_relation(relation) is not none else {} -%}
        {%- if "_events" in columns and "_cdc_is_latest" not in columns -%}
            {%- do log("cdc: " ~ relation.identifier ~ ": " ~ ("would be upgraded; run with dry_run: false" if dry_run
                else "upgraded"), info=true) -%}
            {%- if not dry_run -%}
                {%- set properties = {} -%}
                {%- for name, value in cdc._table_properties(relation).items()
                    if name.startswith("cdc.") or name.startswith("delta.enable") -%}
                    {%- do properties.update({name: value}) -%}
                {%- endfor -%}
                {%- set position = cdc._read_checkpoint(relation) -%}
                {%- set keys = cdc._column_list(properties["cdc.keys"].split(", ")) -%}
                {%- set statement -%}
                    create or replace table {{ relation }} using delta
                    partitioned by (_cdc_is_latest)
                    {{ cdc._tblproperties(properties) }}
                    as
                    select
                        *,
                        get(filter(_events, event -> event._op in ('I', 'U')), 0)._event_id as _event_id,
                        row_number() over (partition by {{ keys }} order by _seq desc, _seq_end desc nulls first) = 1 as _cdc_is_latest
                    from {{ relation }}
                {%- endset -%}
                {%- do cdc._commit_with_checkpoint(relation, position, cdc._creation(), statement) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}
