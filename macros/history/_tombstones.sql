{#-
    Beside a history stands <history>_tombstones: the deletes of keys that no version was seen of, and the truncates. Both
    decide what becomes of rows that arrive later. Keys are NULL for a truncate.
-#}
{% macro _tombstones_of(history) -%}
    {{ return(history.incorporate(path={"identifier": history.identifier ~ "_tombstones"})) }}
{%- endmacro %}


{#-
    Whether a history has tombstones to fold. The first build writes none, since it would have to decode everything twice; the
    second run looks for those of all events before it, once, and its checkpoint tells the later ones. So does one after somebody
    dropped the table, or took rows out of it. A history that is rebuilt finds its tombstones again.
-#}
{% macro _has_tombstones(spec, window, checkpoint) -%}
    {%- set exists = not spec.rebuild and cdc._is_there(spec.tombstones) -%}
    {%- if spec.rebuild or window.read_from is none or cdc._has_all_tombstones(spec, checkpoint, exists) -%}
        {{ return(exists) }}
    {%- endif -%}
    {%- set past_ends -%}
        with past_events as (
            {{ cdc._new_events(dict(spec, reads_all=true), until=window.read_from) }}
        )

        select distinct
            {%- for key in spec.key_columns %}
            if(_op = 'T', null, past_events.{{ cdc._quoted(key) }}) as {{ cdc._quoted(key) }},
            {%- endfor %}
            _op,
            past_events._seq,
            {% if spec.time == "_ts" %}_ts,{% endif %}
            past_events._event_id
        from past_events
        left anti join {{ spec.relation }} as history
            on past_events._op <> 'T' and {{ cdc._same(spec.key_columns, "history", "past_events") }}
        where _op in ('D', 'M', 'T')
    {%- endset -%}
    {%- if not cdc._has_rows(past_ends) -%}
        {{ return(exists) }}
    {%- endif -%}
    {%- do cdc._insert_tombstones(spec, past_ends) -%}
    {{ return(true) }}
{%- endmacro %}


{#-
    Whether the tombstones are there that a checkpoint speaks of: builds only add some.
      exists   whether their table is there
-#}
{% macro _has_all_tombstones(spec, checkpoint, exists) -%}
    {%- set version = checkpoint.get("tombstones") -%}
    {#- Older versions of the package kept no number. -#}
    {%- if version is none or version is boolean or version < 0 -%}
        {{ return(version is not none) }}
    {%- elif not exists or cdc._table_version(spec.tombstones) < version -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set others = [] -%}
    {%- set later = cdc._commits_since(spec.tombstones, version) -%}
    {%- for commit in later.commits
        if commit["operation"] not in cdc._maintenance() + ["WRITE", "append"] -%}
        {%- do others.append(commit) -%}
    {%- endfor -%}
    {{ return(later.are_all and not others) }}
{%- endmacro %}


{#- The version of the table of tombstones, for the checkpoint; -1 where there is none. -#}
{% macro _tombstones_version(spec) -%}
    {{ return(cdc._table_version(spec.tombstones) if cdc._is_there(spec.tombstones) else -1) }}
{%- endmacro %}


{#- Tombstones of a history that is gone do not outlive it: the next one may be declared otherwise. -#}
{% macro _drop_tombstones(spec) -%}
    {%- set left = load_relation(spec.tombstones) -%}
    {%- if left is not none -%}{%- do adapter.drop_relation(left) -%}{%- endif -%}
{%- endmacro %}


{#- Tombstones that this run found; of a history that is rebuilt, all there are. -#}
{% macro _add_tombstones(spec, events, changes) -%}
    {%- set times = "_ts, " if spec.time == "_ts" else "" -%}
    {%- set found -%}
        with ends as (
            select
                {{ cdc._column_list(spec.key_columns) }},
                explode(_events) as _end
            from {{ changes.relation }}
            where dbt_change_type = 'tombstone'
        )

        select
            {{ cdc._column_list(spec.key_columns) }},
            _end._op,
            _end._seq,
            {{ "_end._ts," if spec.time == "_ts" }}
            _end._event_id
        from ends
        union
        select
            {%- for key in spec.key_columns %}
            if(true, null, {{ cdc._quoted(key) }}) as {{ cdc._quoted(key) }},
            {%- endfor %}
            _op,
            _seq,
            {{ times }}_event_id
        from {{ events.relation }}
        where _op = 'T'
    {%- endset -%}
    {%- do cdc._insert_tombstones(spec, found) -%}
{%- endmacro %}


{#-
    Adds those tombstones that are not there yet; to a history that is rebuilt belong these alone. Another build may add some at the
    same time, and make the table.
-#}
{% macro _insert_tombstones(spec, found) -%}
    {%- if spec.rebuild -%}
        {%- call statement("create_tombstones") -%}
            create or replace table {{ spec.tombstones }} using {{ "iceberg" if cdc._is_iceberg(spec.tombstones) else "delta" }} as
            {{ found }}
        {%- endcall -%}
        {%- do adapter.cache_added(spec.tombstones) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if not cdc._is_there(spec.tombstones) -%}
        {%- do cdc._create_if_missing(spec.tombstones, found) -%}
    {%- endif -%}
    {%- call statement("add_tombstones") -%}
        insert into {{ spec.tombstones }}
        select found.*
        from ({{ found }}) as found
        left anti join {{ spec.tombstones }} as known
            on
                {{ cdc._same(spec.key_columns, "known", "found") }}
                and {{ "known._op = found._op and known._seq = found._seq" if spec.recognizes else "known._event_id = found._event_id" }}
    {%- endcall -%}
{%- endmacro %}
