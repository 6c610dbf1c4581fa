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


{#- Whether a row is the one without a key, that of the last truncate. -#}
{% macro _is_truncate_row(spec, alias) -%}
    {%- set no_key = [] -%}
    {%- for key in spec.key_columns -%}
        {%- do no_key.append(alias ~ "." ~ cdc._quoted(key) ~ " is null") -%}
    {%- endfor -%}
    {{ return("(" ~ (no_key | join(" and ")) ~ ")") }}
{%- endmacro %}


{#-
    The rows that a run may change, and whether the new events of their keys are in order after them: those of its keys, those
    that one of its truncates falls into, and the last truncate.
-#}
{% macro _known_lives(spec, events, has_truncates, bounds, is_single) -%}
    {%- set columns = cdc._column_list(cdc._life_columns(spec) | reject("equalto", "_events"), "known") ~ ", "
        ~ cdc._kept_events(spec, "known") -%}
    {%- set is_truncate = cdc._is_truncate_row(spec, "known") -%}
with touched_keys as (
    {{ cdc._touched_keys(spec, events, is_single) | indent(4) }}
    {%- if spec.by_position %}
    union
    select
        {{ cdc._column_list(spec.key_columns, "known") }},
        known._cdc_seq as _first_new
    from {{ spec.relation }} as known
    left semi join {{ events.relation }} as given on known._cdc_seq = given._seq
    {%- endif %}
)

select
    {{ columns }},
    {{ is_truncate }} as _is_truncate,
    {{ is_truncate }}
    {{- "" if has_truncates else
        " or touched_keys._first_new > coalesce(element_at(known._events, -1)._seq, known._cdc_seq)" }} as _is_in_order
from {{ spec.relation }} as known
left join touched_keys on {{ cdc._same(spec.key_columns, "known", "touched_keys") }}
where
    {#- A condition on the bounded column alone leaves out partitions as well as files. #}
    ({{ cdc._is_within(bounds, "known") }} or known.{{ cdc._quoted(spec.key_columns[0]) }} is null)
    and (touched_keys._first_new is not null or {{ is_truncate }})
{%- if has_truncates %}
union all
select
    {{ columns }},
    false as _is_truncate,
    false as _is_in_order
from {{ spec.relation }} as known
cross join (select max(_seq) as _last from {{ events.relation }} where _op = 'T') as last_truncate
left anti join touched_keys on {{ cdc._same(spec.key_columns, "known", "touched_keys") }}
where
    not {{ is_truncate }}
    and exists({{ "coalesce(known._events, array(" ~ cdc._sole_event(spec, "known") ~ "))" }}, event -> event._seq <= _last)
{%- endif %}
{%- endmacro %}


{#-
    The touched rows folded again with the new events. A row whose new events are in order takes part as it is, the others as the
    events that made them.
-#}
{% macro _changed_lives(spec, events, known) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
    {%- set columns = cdc._life_columns(spec) -%}
    {%- set time = "_ts," if spec.time == "_ts" else "" -%}
with known_lives as (
    select * from {{ known.relation }}
),

new_events as (
    select
        *,
        true as _is_new
    from {{ events.relation }}
    where _op <> 'T'
),

state_events as (
    select
        {{ keys }},
        {{ cdc._values_struct(spec) }} as _values,
        if(_cdc_deleted_at is null, 'S', 'E') as _op,
        _cdc_seq as _seq,
        {{ "_cdc_updated_at as _ts," if spec.time == "_ts" }}
        coalesce(_event_id, element_at(_events, -1)._event_id) as _event_id,
        cast(array() as array<string>) as _unset,
        false as _is_new,
        struct(
            _cdc_created_at,
            _cdc_seq,
            _cdc_updated_at as dbt_updated_at,
            cast(null as string) as dbt_scd_id,
            _event_id,
            _events,
            {{ cdc._sole_event(spec) }} as _sole_event
        ) as _state
    from known_lives
    where _is_in_order and not _is_truncate
),

unfolded_lives as (
    select
        *,
        {#- Of events at one position the last one made the row what it is. -#}
        array_max(filter(_remembered, event -> event._seq = _cdc_seq and event._op = 'U')) as _cdc_change,
        explode(_remembered) as _event
    from (
        select
            *,
            coalesce(_events, array({{ cdc._sole_event(spec) }})) as _remembered
        from known_lives
        where not _is_in_order and not _is_truncate
    ) as remembering_lives
),

known_events as (
    select
        {{ keys }},
        {#- Since its last change an event has the values of the row. What came before was replaced, and only differs from it. -#}
        {%- set own = "if(_event._seq > _cdc_seq or _event <=> _cdc_change, " ~ cdc._values_struct(spec) ~ ", null)" %}
        {{ "coalesce(_event._image, " ~ own ~ ")" if spec.keeps_images and spec.value_columns else own }} as _values,
        _event._op,
        _event._seq,
        {{ "_event._ts," if spec.time == "_ts" }}
        _event._event_id,
        _event._unset,
        false as _is_new
    from unfolded_lives
),
{%- set sources = ["new_events", "known_events"] %}
{%- if spec.recognizes %}

{{ cdc._recognized_events(spec) }},
{%- set sources = ["other_new_events", "other_known_events", "recalled_events"] %}
{%- endif %}
{%- if spec.truncated %}

truncates as (
    select
        _seq,
        {{ time }}
        _event_id
    from {{ events.relation }}
    where _op = 'T'
    union
    select
        element_at(_events, -1)._seq,
        {{ "element_at(_events, -1)._ts," if spec.time == "_ts" }}
        element_at(_events, -1)._event_id
    from known_lives
    where _is_truncate
),
{%- endif %}

events as (
    select {{ cdc._one_partition(not spec.splits) }}*
    from (
        select * from state_events
        {%- for source in sources %}
        union all
        select *, null as _state from {{ source }}
        {%- endfor %}
    ) as all_events
),

{{ cdc._lives(dict(spec, stateful=true, counted=true)) }}

select
    {{ cdc._column_list(columns, "lives") }},
    lives._effects,
    known._cdc_seq is not null as _is_known,
    case
        when lives._op = 'D' then if(known._cdc_seq is null, null, 'D')
        when not (struct({{ cdc._column_list(columns, "lives") }}) <=> struct({{ cdc._column_list(columns, "known") }})) then 'U'
    end as _current_op
from lives
left join known_lives as known on {{ cdc._same(spec.key_columns, "lives", "known") }}
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
    select
        {%- for column in spec.key_columns + spec.value_columns %}
        null as {{ cdc._quoted(column) }},
        {%- endfor %}
        null as _cdc_created_at,
        {{ time }} as _cdc_updated_at,
        _seq as _cdc_seq,
        {{ time }} as _cdc_deleted_at,
        array(struct(
            _seq,
            'T' as _op,
            _event_id,
            {{ "_ts," if time == "_ts" }}
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
