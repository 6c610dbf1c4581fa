{#-
    Beside a history stands <history>_tombstones: the deletes of keys that no version was seen of, and the truncates. Both
    decide what becomes of rows that arrive later. Keys are NULL for a truncate.
-#}

{#-
    The first build of a history writes no tombstones, for it would have to decode everything twice; the second run does.
    A rebuild reads all events anyway and only needs the table to be there.
-#}
{% macro _ensure_tombstones(t, events_sql) -%}
    {%- if load_relation(t.tombstones) is none -%}
        {%- call statement("create_tombstones") -%}
            create or replace table {{ t.tombstones }}
            using delta
            as
            with past_events as (
                {{ cdc._new_events(t, events_sql, until=t.read_from) }}
            )

            select distinct
                {{ cdc._column_list(t.key_columns, "past_events") }},
                _op,
                past_events._seq,
                {% if t.time == "_ts" %}_ts,{% endif %}
                _event_id
            from past_events
            left anti join {{ t.target }} as history on {{ cdc._same(t.key_columns, "history", "past_events") }}
            where {{ "_op in ('D', 'M', 'T')" if t.read_from is not none else "false" }}
        {%- endcall -%}
    {%- endif -%}
{%- endmacro %}


{#- Tombstones that this run found and that are not there yet. -#}
{% macro _add_tombstones(t) -%}
    {%- set times = "_ts, " if t.time == "_ts" else "" -%}
    {%- call statement("add_tombstones") -%}
        insert into {{ t.tombstones }}
        with ends as (
            select
                {{ cdc._column_list(t.key_columns) }},
                explode(_events) as _end
            from {{ t.steps.changes }}
            where dbt_change_type = 'tombstone'
        ),

        found as (
            select
                {{ cdc._column_list(t.key_columns) }},
                _end._op,
                _end._seq,
                {{ "_end._ts," if t.time == "_ts" }}
                _end._event_id
            from ends
            union
            select
                {{ cdc._column_list(t.key_columns) }},
                _op,
                _seq,
                {{ times }}_event_id
            from {{ t.steps.events }}
            where _op = 'T'
        )

        select found.*
        from found
        left anti join {{ t.tombstones }} as known
            on
                known._event_id = found._event_id
                and {{ cdc._same(t.key_columns, "known", "found") }}
    {%- endcall -%}
{%- endmacro %}
