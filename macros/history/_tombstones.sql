{#-
    Beside a history stands <history>_tombstones: the deletes of keys that no version was seen of, and the truncates. Both
    decide what becomes of rows that arrive later. Keys are NULL for a truncate.
-#}
{% macro _tombstones_of(history) -%}
    {{ return(history.incorporate(path={"identifier": history.identifier ~ "_tombstones"})) }}
{%- endmacro %}


{#-
    Whether a history has tombstones. The first build writes none, for it would have to decode everything twice; the second run
    looks what there was, once, and its stamp tells the later ones.
-#}
{% macro _find_tombstones(t, events_sql) -%}
    {%- if load_relation(t.tombstones) is not none -%}
        {{ return(true) }}
    {%- elif t.rebuild or t.read_from is none or t.tombstones_known -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set past_ends -%}
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
        where _op in ('D', 'M', 'T')
    {%- endset -%}
    {%- if run_query("select count(*) from (" ~ past_ends ~ ") as past_ends").rows[0][0] == 0 -%}
        {{ return(false) }}
    {%- endif -%}
    {%- do run_query("create or replace table " ~ t.tombstones ~ " " ~ cdc._using_delta() ~ " as " ~ past_ends) -%}
    {{ return(true) }}
{%- endmacro %}


{#- Tombstones that this run found and that are not there yet. -#}
{% macro _add_tombstones(t) -%}
    {%- set times = "_ts, " if t.time == "_ts" else "" -%}
    {%- set create = "create or replace table " ~ t.tombstones ~ " " ~ cdc._using_delta() ~ " as" -%}
    {%- call statement("add_tombstones") -%}
        {{ "insert into " ~ t.tombstones if t.has_tombstones else create }}
        with ends as (
            select
                {{ cdc._column_list(t.key_columns) }},
                explode(_events) as _end
            from {{ t.steps.changes.view }}
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
            from {{ t.steps.events.view }}
            where _op = 'T'
        )

        select found.*
        from found
        {%- if t.has_tombstones %}
        left anti join {{ t.tombstones }} as known
            on
                known._event_id = found._event_id
                and {{ cdc._same(t.key_columns, "known", "found") }}
        {%- endif %}
    {%- endcall -%}
{%- endmacro %}
