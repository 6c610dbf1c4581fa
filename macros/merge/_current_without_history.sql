{#-
    The final table of a source that is declared with `history: false`: the present life of each key, folded from the events
    themselves. The table keeps what a later event needs: `_events`, those of the present life with their values; a row
    with `_cdc_deleted_at` for each key that is gone, and one without a key for the last truncate.
-#}
{% macro _current_without_history(events) -%}
    {%- set runs = execute and flags.WHICH in ["run", "build", "retry"] -%}
    {%- set updates = runs and is_incremental() -%}
    {%- set source_sql = "select * from " ~ events -%}
    {%- if updates and (cdc._is_stamped(this, cdc._sight_of_events(model)) or cdc._is_passed_by(model)) -%}
        {{ return(cdc._nothing_new_rows()) }}
    {%- endif -%}
    {%- set t = cdc._history_traits(model, source_sql) -%}
    {#- A life is one version: without tracked columns only births begin one, and each event keeps its values. -#}
    {%- do t.update({"tracked": [], "target": this, "counted": updates}) -%}
    {%- if not runs -%}
        {{ return(cdc._first_lives(t, source_sql)) }}
    {%- endif -%}
    {%- if updates -%}
        {%- set properties = cdc._table_properties(this) -%}
        {%- do cdc._refuse_drift(model, t, properties) -%}
        {%- do cdc._evolve_to(t, this, t.value_columns, properties) -%}
    {%- endif -%}
    {%- set stamp = cdc._read_stamp(this) if updates else {} -%}
    {%- do cdc._find_position(t, source_sql, stamp, model) -%}
    {%- if not updates -%}
        {%- do cdc._write_stamp(this, t.position) -%}
        {%- do cdc._record_first_build(t, model) -%}
        {{ return(cdc._first_lives(t, source_sql)) }}
    {%- elif t.nothing_new -%}
        {{ return(cdc._nothing_new_rows()) }}
    {%- endif -%}
    {%- set detail = cdc._table_detail(this) -%}
    {%- do t.update({"steps": cdc._steps(detail.location), "large": detail.large}) -%}
    {%- do cdc._write_step(t.steps.events, cdc._new_events(t, source_sql, t.read_from, t.read_to)) -%}
    {%- do cdc._count_events(t) -%}
    {%- do cdc._plan_rows(t, scans_table=true) -%}
    {%- do cdc._write_step(t.steps.known, cdc._known_lives(t)) -%}
    {%- do cdc._plan_rows(t) -%}
    {%- do cdc._write_step(t.steps.changes, cdc._changed_lives(t)) -%}
    {%- do cdc._count_changes(t, "_op") -%}
    {%- set rows = "select * except (_effects)" ~ cdc._partition_columns() ~ " from " ~ t.steps.changes.view -%}
    {%- if cdc._overwrites() -%}
        {%- do cdc._plan_as_ever(t) -%}
        {{ return(cdc._overwritten_rows(rows, t.position)) }}
    {%- endif -%}
    {%- do cdc._plan_rows(t, scans_table=true) -%}
    {{ return(cdc._merge_mark(stamp.at, t.position, t.bounds, t.planned_small) ~ rows) }}
{%- endmacro %}


{% macro _first_lives(t, source_sql) -%}
with {{ cdc._all_events(t, source_sql) }},

{{ cdc._lives(t) }}

select
    * except (_op)
    {{- cdc._partition_columns() }}
from lives
where _op = 'U'
{%- endmacro %}


{#- The rows that a run may change: those of its keys, those that one of its truncates falls into, and the last truncate. -#}
{% macro _known_lives(t) -%}
with touched_keys as (
    select {{ cdc._column_list(t.key_columns) }}
    from {{ t.steps.events.view }}
    where _op <> 'T'
    {%- if t.truncates %}
    union
    select {{ cdc._column_list(t.key_columns, "known") }}
    from {{ t.target }} as known
    cross join (select max(_seq) as _last from {{ t.steps.events.view }} where _op = 'T') as last_truncate
    where exists(known._events, event -> event._op <> 'T' and event._seq <= _last)
    {%- endif %}
)

select
    {{ cdc._column_list(t.key_columns, "known") }},
    {{ cdc._kept_events(t, "known") }}
from {{ t.target }} as known
left semi join touched_keys on {{ cdc._same(t.key_columns, "known", "touched_keys") }}
where {{ cdc._is_within(t.bounds, "known") }}
union all
select
    {{ cdc._column_list(t.key_columns) }},
    {{ cdc._kept_events(t) }}
from {{ t.target }}
where {{ cdc._is_truncate_row(t) }}
{%- endmacro %}


{#- Whether a row is the one without a key, that of the last truncate. -#}
{% macro _is_truncate_row(t) -%}
    {%- set no_key = [] -%}
    {%- for key in t.key_columns -%}
        {%- do no_key.append(cdc._quoted(key) ~ " is null") -%}
    {%- endfor -%}
    {{ return(no_key | join(" and ")) }}
{%- endmacro %}


{#- The touched rows unfolded into the events that made them, joined by the new ones and folded again. -#}
{% macro _changed_lives(t) -%}
    {%- set keys = cdc._column_list(t.key_columns) -%}
with new_events as (
    select
        *,
        true as _is_new
    from {{ t.steps.events.view }}
    where _op <> 'T'
),

known_events as (
    select
        {{ keys }},
        inline(_events)
    from {{ t.steps.known.view }}
),

truncates as (
    select
        _seq,
        {{ "_ts," if t.time == "_ts" }}
        _event_id
    from {{ t.steps.events.view }}
    where _op = 'T'
    union
    select
        _seq,
        {{ "_ts," if t.time == "_ts" }}
        _event_id
    from known_events
    where _op = 'T'
),

events as (
    select * from new_events
    union all
    select
        {{ keys }},
        {%- for column in t.value_columns %}
        _image.{{ cdc._quoted(column) }},
        {%- endfor %}
        _op,
        _seq,
        {{ "_ts," if t.time == "_ts" }}
        _event_id,
        _unset,
        false as _is_new
    from known_events
    where _op <> 'T'
),

{{ cdc._lives(t) }}

select * from lives
{%- endmacro %}


{#-
    From the CTEs `events` and `truncates`: what becomes of each key (_op), its last life or that it is gone, and a row for the last
    truncate. Of what is over only the last end is kept, and nothing of what lies before the last truncate: no event
    that comes later can need it. So the table depends on the set of events alone, its hidden columns too.
-#}
{% macro _lives(t) -%}
    {%- set keys = cdc._column_list(t.key_columns) -%}
    {%- set time = t.time -%}
{{ cdc._versions(t) }},

truncate_ends as (
    select
        max(_seq) as _seq,
        {{ "max_by(_ts, _seq) as _ts," if time == "_ts" }}
        max_by(_event_id, _seq) as _event_id
    from truncates
),

followed_lives as (
    select
        *,
        dbt_scd_id is not null and _seq_end is null as _is_living,
        max(array_max(filter(_events, event -> event._op in ('D', 'M')))) over (partition by {{ keys }}) as _end,
        {%- if t.counted %}
        struct(
            {%- for effect in cdc._effects() %}
            sum(_effects.{{ effect }}) over (partition by {{ keys }}) as {{ effect }}{{ "," if not loop.last }}
            {%- endfor %}
        ) as _all_effects,
        {%- endif %}
        row_number() over (partition by {{ keys }} order by _seq desc nulls last) as _latest
    from versions
),

last_lives as (
    select
        followed_lives.* except (_end),
        if(truncate_ends._seq is null or _end._seq > truncate_ends._seq, _end, null) as _end,
        truncate_ends._seq as _truncated
    from followed_lives
    cross join truncate_ends
    where _latest = 1
),

lives as (
    select
        {{ keys }},
        {%- for column in t.value_columns %}
        {%- set name = cdc._quoted(column) %}
        if(_is_living, {{ name }}, null) as {{ name }},
        {%- endfor %}
        if(_is_living, _cdc_created_at, null) as _cdc_created_at,
        if(_is_living, dbt_updated_at, _end.{{ time }}) as _cdc_updated_at,
        if(_is_living, _cdc_seq, coalesce(_end._seq, _truncated)) as _cdc_seq,
        if(_is_living, null, _end.{{ time }}) as _cdc_deleted_at,
        concat(
            array_compact(array(_end)),
            filter(_events, event -> _is_living and event._op in ('I', 'U'))
        ) as _events,
        {%- if t.counted %}
        _all_effects as _effects,
        {%- endif %}
        if(_is_living or _end is not null, 'U', 'D') as _op
    from last_lives
    union all
    select
        {%- for column in t.key_columns + t.value_columns %}
        cast(null as {{ t.types[column] }}) as {{ cdc._quoted(column) }},
        {%- endfor %}
        cast(null as {{ t.types[time] }}) as _cdc_created_at,
        {{ time }} as _cdc_updated_at,
        _seq as _cdc_seq,
        {{ time }} as _cdc_deleted_at,
        array(struct(
            _seq,
            'T' as _op,
            _event_id,
            {{ "_ts," if time == "_ts" }}
            cast(array() as array<string>) as _unset
            {%- if t.value_columns %},
            {{ cdc._no_image(t, t.value_columns) }} as _image
            {%- endif %}
        )) as _events,
        {%- if t.counted %}
        null as _effects,
        {%- endif %}
        'U' as _op
    from truncate_ends
    where _seq is not null
)
{%- endmacro %}
