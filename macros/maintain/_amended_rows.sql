{#-
    The current rows of the table, with the columns of its final table and `__cdc_last`, the last event of each, and what is to be
    set:
      rows       their SELECT
      names      the columns that the condition and the expressions can name
      types      name to type, `_seq` and `_ts` among them
      set        name of the column, expression and type, for each that is set
      deletes    whether the rows are deleted
-#}
{% macro _current_values(subject, where, set) -%}
    {%- set d = subject.declaration -%}
    {%- set base = subject.base -%}
    {%- set types = cdc._column_types(base.relation) -%}
    {%- set hidden = cdc._history_columns({"key_columns": [], "value_columns": []}) if d.history
        else ["_events", "_event_id", "_cdc_deleted_at", "_cdc_created_at", "_cdc_updated_at", "_cdc_seq"] -%}
    {%- set updated_at = "dbt_updated_at" if d.history else "_cdc_updated_at" -%}
    {%- set began, time = ("_seq", "dbt_valid_from") if d.history else ("_cdc_seq", "_cdc_updated_at") -%}
    {%- set names, selected = [], [] -%}
    {%- for name in types if name not in hidden and name not in d.partition_by -%}
        {%- do names.append(name) -%}
        {%- do selected.append(cdc._quoted(name)) -%}
    {%- endfor -%}
    {%- for name, expression in dict({"_cdc_created_at": "_cdc_created_at", "_cdc_updated_at": updated_at, "_cdc_seq": "_cdc_seq"},
        **d.partition_by).items() -%}
        {%- do names.append(name) -%}
        {%- do selected.append(expression ~ " as " ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {%- set last = "element_at(_events, -1)." -%}
    {%- set parts = [
        "coalesce(" ~ last ~ "_seq, " ~ began ~ ") as _seq",
        "coalesce(array_max(filter(_events, event -> event._seq = " ~ last ~ "_seq and event._op in ('I', 'U'))._event_id), _event_id)"
            ~ " as _event_id",
    ] -%}
    {%- if cdc._has_event_time(d) -%}{%- do parts.append("coalesce(" ~ last ~ "_ts, " ~ time ~ ") as _ts") -%}{%- endif -%}
    {%- set given = [] -%}
    {%- set declared = {} -%}
    {%- for column in d.columns -%}{%- do declared.update({column.name | lower: column}) -%}{%- endfor -%}
    {%- for name, expression in (set or {}).items() -%}
        {%- set column = declared[name | lower] -%}
        {%- do given.append({"name": column.name, "type": cdc._table_type(column),
            "expression": expression | string | lower if expression is boolean else expression | string}) -%}
    {%- endfor -%}
    {{ return({
        "rows": "select " ~ (selected | join(", ")) ~ ", struct(" ~ (parts | join(", ")) ~ ") as __cdc_last from " ~ base.relation
            ~ " where " ~ ("_cdc_is_latest and _seq_end is null" if d.history else "_cdc_deleted_at is null"),
        "names": names,
        "types": dict(types, _seq=types[began], _ts=types[time]),
        "set": given,
        "deletes": not set,
    }) }}
{%- endmacro %}


{#-
    The events of the rows that meet the condition and change: the key, the new values, and `__cdc_misfits`, the columns whose
    value is not what the expression gives. A cast would round it, cut it, or make it NULL.
-#}
{% macro _amended_rows(subject, amended, where) -%}
    {%- set d = subject.declaration -%}
    {%- set keys = cdc._column_list(d.key_columns) -%}
    {%- set given, new, misfits, before, after, set_names = [], [], [], [], [], [] -%}
    {%- for column in amended.set -%}
        {%- set value = "__cdc_given_" ~ loop.index ~ ".value" -%}
        {%- set name = "__cdc_new_" ~ loop.index -%}
        {%- do given.append("struct((" ~ column.expression ~ "\n) as value) as __cdc_given_" ~ loop.index) -%}
        {%- do given.append(cdc._quoted(column.name) ~ " as __cdc_old_" ~ loop.index) -%}
        {%- do new.append("try_cast(" ~ value ~ " as " ~ column.type ~ ") as " ~ name) -%}
        {%- if column.given_type not in ["void", column.type] -%}
            {%- do misfits.append("case when " ~ value ~ " is not null and not (" ~ name ~ " is not null and try_cast(" ~ name
                ~ " as " ~ column.given_type ~ ") <=> " ~ value ~ ") then " ~ cdc._literal(column.name) ~ " end") -%}
        {%- endif -%}
        {%- do before.append("__cdc_old_" ~ loop.index ~ " as value_" ~ loop.index) -%}
        {%- do after.append(name ~ " as value_" ~ loop.index) -%}
        {%- do set_names.append(cdc._literal(column.name)) -%}
    {%- endfor -%}
    {%- set hashed = ["'D'" if amended.deletes else "'U'"] + set_names -%}
    {%- for column in amended.set -%}
        {#- Equal hashes of (NULL, 1) and (1, NULL) would be one event. -#}
        {%- do hashed.append("__cdc_new_" ~ loop.index ~ " is null") -%}
        {%- do hashed.append("__cdc_new_" ~ loop.index) -%}
    {%- endfor -%}
    {%- do hashed.extend(cdc._quoted_all(d.key_columns)) -%}
    {%- set highest = "9223372036854775807" -%}
with current_rows as (
    {{ amended.rows }}
),

matching_rows as (
    select
        {{ (cdc._quoted_all(d.key_columns) + ["__cdc_last"] + given) | join(",\n        ") }}
    from current_rows{{ cdc._meeting(where) }}
),

changed_rows as (
    select
        {{ (["*"] + new) | join(",\n        ") }}
    from matching_rows
),

judged_rows as (
    select
        *,
        {{ "array_compact(array(" ~ (misfits | join(", ")) ~ "))" if misfits else "cast(array() as array<string>)" }} as __cdc_misfits
    from changed_rows
)

select
    {{ keys }},
    {%- for column in amended.set %}
    __cdc_new_{{ loop.index }} as {{ cdc._quoted(column.name) }},
    {%- endfor %}
    {{ "'D'" if amended.deletes else "'U'" }} as _op,
    __cdc_last._seq as _seq,
    {%- if cdc._has_event_time(d) %}
    {{ "greatest(__cdc_last._ts, cast(current_timestamp() as " ~ amended.types["_ts"] ~ "))"
        if amended.types["_ts"] in ["timestamp", "timestamp_ntz", "date"] else "__cdc_last._ts" }} as _ts,
    {%- endif %}
    {#- Above the identity of the last event, by a small part of what is left: there is room for thousands after it. #}
    __cdc_last._event_id + 1 + pmod(
        xxhash64({{ hashed | join(", ") }}), greatest({{ highest }} div 256 - __cdc_last._event_id div 256, 1)
    ) as _event_id,
    __cdc_misfits
from judged_rows
{%- if amended.set %}
where size(__cdc_misfits) > 0 or not (struct({{ before | join(", ") }}) <=> struct({{ after | join(", ") }}))
{%- endif %}
{%- endmacro %}
