{#-
    The final table of a source that is declared with `history: false`: the present row lifetime of each key, folded from the events
    themselves. The table keeps what a later event needs: `_events`, those of the present lifetime; a row with
    `_cdc_deleted_at` for each key that is gone, and one without a key for the last truncate.
-#}
{% macro _first_lives(spec, until=none) -%}
with {{ cdc._all_events(spec, until) }},

{{ cdc._lives(dict(spec, splits=true)) }}

select {{ cdc._column_list(cdc._life_columns(spec)) }}
    {{- cdc._partition_columns(spec.node) }}
from lives
where _op = 'U'
{%- endmacro %}


{#- The columns of a final table without a history, in order, without those that it is only partitioned by. -#}
{% macro _life_columns(spec) -%}
    {{ return(spec.key_columns + spec.value_columns
        + ["_cdc_created_at", "_cdc_updated_at", "_cdc_seq", "_cdc_deleted_at", "_events", "_event_id"]) }}
{%- endmacro %}


{#-
    From the CTEs `events` and `truncates`: what becomes of each key (_op), its last lifetime or that it is gone, and a row for
    the last truncate. Of what is over only the last end is kept, and nothing of what lies before the last truncate: no event that
    comes later can need it. So the table depends on the set of events alone, its hidden columns too.
-#}
{% macro _lives(spec) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
    {%- set time = spec.time -%}
{%- if spec.folded and not spec.folded.count %}
lives as (
    {{ cdc._sole_lives(spec) | indent(4) }}
)
{%- else %}
{{ cdc._versions(spec) }},
{%- if spec.truncated %}

truncate_ends as (
    select
        max(_seq) as _seq,
        {{ "max_by(_ts, _seq) as _ts," if time == "_ts" }}
        max_by(_event_id, _seq) as _event_id
    from truncates
),
{%- endif %}

followed_lives as (
    select
        *,
        dbt_scd_id is not null and _seq_end is null as _is_living,
        max(array_max(filter(_events, event -> event._op in ('D', 'M')))) over (partition by {{ keys }}) as _end,
        {%- if spec.counted %}
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
    {%- if spec.truncated %}
    select
        followed_lives.* except (_end),
        if(truncate_ends._seq is null or _end._seq > truncate_ends._seq, _end, null) as _end,
        truncate_ends._seq as _truncated
    from followed_lives
    cross join truncate_ends
    {%- else %}
    select *
    from followed_lives
    {%- endif %}
    where _latest = 1
),

kept_lives as (
    select
        *,
        if(
            _is_living,
            concat(array_compact(array(_end)), filter(_events, event -> event._op in ('I', 'U'))),
            array_compact(array(_end))
        ) as _kept
    from last_lives
),

lives as (
    select
        {{ keys }},
        {%- for column in spec.value_columns %}
        {%- set name = cdc._quoted(column) %}
        if(_is_living, {{ name }}, null) as {{ name }},
        {%- endfor %}
        if(_is_living, _cdc_created_at, null) as _cdc_created_at,
        if(_is_living, dbt_updated_at, _end.{{ time }}) as _cdc_updated_at,
        if(_is_living, _cdc_seq, {{ "coalesce(_end._seq, _truncated)" if spec.truncated else "_end._seq" }}) as _cdc_seq,
        if(_is_living, null, _end.{{ time }}) as _cdc_deleted_at,
        {#- A single full image is what the row says. -#}
        if(_is_living and size(_kept) = 1 and size(_kept[0]._unset) = 0, null, _kept) as _events,
        if(_is_living, _event_id, null) as _event_id,
        {%- if spec.counted %}
        _all_effects as _effects,
        {%- endif %}
        if(_is_living or _end is not null, 'U', 'D') as _op
    from kept_lives
    {%- if spec.splits or spec.folded %}
    union all
    {{ cdc._sole_lives(spec) | indent(4) }}
    {%- endif %}
    {%- if spec.truncated %}
    union all
    {{ cdc._truncate_row(spec) | indent(4) }}
    {%- endif %}
)
{%- endif %}
{%- endmacro %}


{#- The rows of keys whose only event is a full image, see `_sole_versions`. -#}
{% macro _sole_lives(spec) -%}
select
    {{ cdc._column_list(spec.key_columns) }},
    {%- for column in spec.value_columns %}
    _values.{{ cdc._quoted(column) }},
    {%- endfor %}
    {{ spec.time }} as _cdc_created_at,
    {{ spec.time }} as _cdc_updated_at,
    _seq as _cdc_seq,
    if(true, null, {{ spec.time }}) as _cdc_deleted_at,
    {{ cdc._no_events(spec) }} as _events,
    _event_id,
    {%- if spec.counted %}
    {{ cdc._counted_effects({"inserted": "_is_new"}) }} as _effects,
    {%- endif %}
    'U' as _op
from sole_events
{%- endmacro %}


{#- The row of the last truncate, which has no key, of `truncate_ends`. -#}
{% macro _truncate_row(spec) -%}
select
    {%- for column in spec.key_columns + spec.value_columns %}
    null as {{ cdc._quoted(column) }},
    {%- endfor %}
    null as _cdc_created_at,
    {{ spec.time }} as _cdc_updated_at,
    _seq as _cdc_seq,
    {{ spec.time }} as _cdc_deleted_at,
    array(struct(
        _seq,
        'T' as _op,
        _event_id,
        {{ "_ts," if spec.time == "_ts" }}
        cast(array() as array<string>) as _unset
        {%- if spec.keeps_images and spec.value_columns %},
        null as _image
        {%- endif %}
    )) as _events,
    null as _event_id,
    {%- if spec.counted %}
    null as _effects,
    {%- endif %}
    'U' as _op
from truncate_ends
where _seq is not null
{%- endmacro %}
