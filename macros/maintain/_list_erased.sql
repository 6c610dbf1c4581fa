{% macro _list_erased(d, erased, erasure_id) -%}
    {%- set list = cdc._erasures_relation() -%}
    {%- if cdc._erasure_list() is none -%}
        {%- do adapter.create_schema(list) -%}
        {%- do cdc._create_if_missing(list, cdc._null_row({"table_name": "string", "key_hash": "string", "erasure_id": "string",
            "erased_at": "timestamp", "counts_from": "string", "is_done": "boolean"})) -%}
    {%- endif -%}
    {%- set source = "(select " ~ cdc._literal(d.table) ~ " as table_name, " ~ cdc._row_key_hash(d) ~ " as key_hash, "
        ~ cdc._literal(erasure_id)
        ~ " as erasure_id, current_timestamp() as erased_at, cast(null as string) as counts_from, false as is_done"
        ~ " from " ~ erased.relation ~ ")" -%}
    {%- set columns = ["erasure_id", "erased_at", "counts_from", "is_done"] -%}
    {%- do run_query(cdc._merge(list, source, cdc._key_predicates(["table_name", "key_hash"]), [
        {"when": "matched", "then": "update", "columns": columns},
        {"when": "not matched", "then": "insert", "columns": ["table_name", "key_hash"] + columns},
    ])) -%}
{%- endmacro %}


{#- The staging views that are there decode events of erased keys until dbt builds them again. -#}
{% macro _filter_views(subject) -%}
    {%- set d = subject.declaration -%}
    {%- set mark = "__cdc_listed" -%}
    {%- for node in subject.views if node.config.materialized == "view" -%}
        {%- set query = adapter.view_query(node.relation_name) -%}
        {%- if query is not none and d.key_changes and cdc._erased_ranges_relation(d) | string not in query -%}
            {%- set columns = cdc._column_list(cdc._table_types(node.relation_name).keys() | list) -%}
            {%- do run_query("create or replace view " ~ node.relation_name ~ " as with all_events as (" ~ query ~ "\n),\n\n"
                ~ cdc._without_erased_ranges(d, cdc._erased_ranges_relation(d)) ~ "\n\nselect " ~ columns ~ "\nfrom identified_events") -%}
        {%- elif query is not none and not d.key_changes and cdc._erasures_relation() | string not in query -%}
            {%- do run_query("create or replace view " ~ node.relation_name ~ " as select __cdc_events.* from (" ~ query
                ~ "\n) as __cdc_events left anti join (select key_hash from " ~ cdc._erasures_relation() ~ " where table_name = "
                ~ cdc._literal(d.table) ~ ") as " ~ mark ~ " on __cdc_events._op <> 'T' and " ~ mark ~ ".key_hash = "
                ~ cdc._row_key_hash(d, "__cdc_events")) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}
