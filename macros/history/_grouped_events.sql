{#-
    Events grouped to versions, as CTEs of `numbered_events`. The last one, `remembered_events`, has one row a version, in `_events`
    with what a later run needs to fold the key again.
-#}
{% macro _grouped_events(spec) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
    {%- set times = "_ts, " if spec.time == "_ts" else "" -%}
    {%- set kept = cdc._kept_columns(spec) -%}
{#- Ends that come before the first version stay with it: a late insert before them needs them. -#}
grouped_events as (
    select
        {{ keys }},
        greatest(_version, 1) as _version,
        min_by(_seq, _ordinal) filter (where _is_image) as _seq,
        min_by({{ spec.time }}, _ordinal) filter (where _is_image) as _from,
        min_by(_event_id, _ordinal) filter (where _is_image) as _first_event_id,
        min_by(struct(_seq, {{ spec.time }} as _at), _ordinal) filter (where _is_close) as _close,
        max_by(
            {{ "if(_state is null, struct(_seq, " ~ spec.time ~ " as _at), struct(_state._cdc_seq as _seq, _state.dbt_updated_at as _at))"
                if spec.stateful else "struct(_seq, " ~ spec.time ~ " as _at)" }},
            _ordinal
        ) filter (where _is_change) as _change,
        min_by(_created, _ordinal) filter (where _is_image) as _created,
        max_by(_values, _ordinal) filter (where _is_image) as _values,
        {%- if spec.counted %}
        struct(
            sum(if(_is_new and _is_birth, 1, 0)) as inserted,
            sum(if(_is_new and _is_change and not _is_birth, 1, 0)) as updated,
            sum(if(_is_new and _op = 'D' and _is_close, 1, 0)) as deleted,
            sum(if(_is_new and if(_op = 'D', not _is_close, _is_image and not _is_change), 1, 0)) as unchanged,
            sum(if(_is_late and _op <> 'M', 1, 0)) as late,
            sum(if(_is_tied and _op <> 'M', 1, 0)) as tied
        ) as _effects,
        {%- endif %}
        {%- if spec.stateful %}
        max_by(_state, _ordinal) filter (where _state is not null) as _state,
        {%- endif %}
        sort_array(collect_list(struct(
            _seq,
            if(_op = 'I', 'U', _op) as _op,
            _event_id,
            {{ times -}}
            if(_is_end, cast(array() as array<string>), _unset) as _unset
            {%- if kept %},
            if(_is_end, null, {{ cdc._image_of(spec, kept) }}) as _image
            {%- endif %}
        )) filter (where _op not in ('S', 'E') and (_op <> 'T' or _is_close))) as _new_events
    from numbered_events
    group by {{ keys }}, greatest(_version, 1)
),

remembered_events as (
    select
        * except (_new_events),
        {%- if spec.stateful %}
        case
            when _state is null then _new_events
            when size(_new_events) = 0 then _state._events
            else concat(coalesce(_state._events, array(_state._sole_event)), _new_events)
        end as _events
        {%- else %}
        _new_events as _events
        {%- endif %}
    from grouped_events
)
{%- endmacro %}


{#- What a version remembers; NULL where that is a single full image, which the version says by itself. -#}
{% macro _without_sole_event(events) -%}
    {%- set is_sole = "size(" ~ events ~ ") = 1 and " ~ events ~ "[0]._op = 'U' and size(" ~ events ~ "[0]._unset) = 0" -%}
    {{ return("if(" ~ is_sole ~ ", null, " ~ events ~ ")") }}
{%- endmacro %}


{#- What a version without `_events` has in their place: NULL of their type. -#}
{% macro _no_events(spec) -%}
    {%- set kept = cdc._kept_columns(spec) -%}
    {%- set fields = ["_seq", "_op", "_event_id"] + (["_ts"] if spec.time == "_ts" else []) + ["_unset"] -%}
    {%- if kept -%}{%- do fields.append(cdc._image_of(spec, kept) ~ " as _image") -%}{%- endif -%}
    {{ return("if(true, null, array(struct(" ~ (fields | join(", ")) ~ ")))") }}
{%- endmacro %}


{#- The columns whose values a remembered event keeps. -#}
{% macro _kept_columns(spec) -%}
    {{ return((spec.value_columns if spec.keeps_images else []) if spec.lives else cdc._untracked(spec)) }}
{%- endmacro %}
