{#-
    Events to versions: the rules of meaning in plain SELECTs, the only place where they stand.

    Reads the CTEs `events` and `truncates` (positions); gives a chain of CTEs, each read once, that ends in `versions`: one row a
    version, and one row without dbt_scd_id for each key that has ends only.

    An event has the key columns, `_values` (a struct of the value columns), `_op`, `_seq`, `_ts`, `_event_id` and `_unset`.
    Beside the operations of the canonical event it can be
      M   the end of a key whose row moved to another key
      B   where a row lifetime began whose first versions were dropped by a compaction: no value, only a birth
      S   the state of a known version: what it became counts as one event, its `_state` carries the version on
      E   the end of that version
    `_events` holds what a later run needs to fold the key again. It is NULL where the version says all of it by itself: a single
    full image.

      spec.key_columns, spec.value_columns   lists of columns
      spec.tracked      columns whose change begins a version
      spec.time         column of valid_from and valid_to: _ts, or _seq where no event time is declared
      spec.partial      whether events may leave columns unset
      spec.truncated    whether there may be truncates
      spec.stateful     whether events have a `_state`
      spec.counted      whether events say if they are new (_is_new), and versions what the new ones did (_effects)
      spec.lives        whether a version is a whole row lifetime, whose events keep all their values
      spec.splits       whether keys whose only event is a full image are folded apart, see `_sole_versions`: pays where there are
                        many
      spec.folded       the keys that are not such, where they are known beforehand, see `_with_first_facts`: `events` has no
                        others, and where there are none it is not read
-#}
{% macro _versions(spec) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
    {%- set times = "_ts, " if spec.time == "_ts" else "" -%}
    {%- set tie_order = "_event_id, " ~ ("_is_new, " if spec.counted) ~ "_op" -%}
    {%- set event_order = "partition by " ~ keys ~ " order by _seq, _is_end, " ~ tie_order -%}
    {%- set version_order = "partition by " ~ keys ~ " order by _version" -%}
    {%- set resolves = spec.partial and spec.value_columns -%}
    {%- set nothing_before = "coalesce(__cdc_previous._is_end or __cdc_previous._op = 'B', true)" -%}
    {%- set before = "lag(_values) over (" ~ event_order ~ ")" if resolves else "__cdc_previous._values" -%}
    {%- set kept = cdc._kept_columns(spec) -%}
{%- if spec.folded and not spec.folded.count %}
versions as (
    {{ cdc._sole_versions(spec) | indent(4) }}
)
{%- else %}
{%- if spec.truncated %}
truncate_positions as (
    select collect_list(struct(_seq, {{ times }}_event_id)) as _positions
    from truncates
),

{#- Only the first truncate after an event can end its row. It closes what began before it, whenever it arrives. -#}
truncated_events as (
    select
        events.*,
        case
            when _op in ('I', 'U', 'B') and size(_positions) > 0
                then array_min(filter(_positions, truncate -> truncate._seq >= events._seq))
        end as _truncate
    from events
    cross join truncate_positions
),

closed_events as (
    select
        *,
        explode(if(_truncate is null, array(false), array(false, true))) as _is_truncate
    from truncated_events
),

timed_events as (
    select
        {{ keys }},
        _values,
        if(_is_truncate, 'T', _op) as _op,
        if(_is_truncate, _truncate._seq, _seq) as _seq,
        {%- if spec.time == "_ts" %}
        if(_is_truncate, _truncate._ts, _ts) as _ts,
        {%- endif %}
        if(_is_truncate, _truncate._event_id, _event_id) as _event_id,
        _unset,
        {%- if spec.counted %}
        _is_new and not _is_truncate as _is_new,
        {%- endif %}
        {%- if spec.stateful %}
        _state,
        {%- endif %}
        _is_truncate or _op not in ('I', 'U', 'B', 'S') as _is_end
    from closed_events
),
{%- else %}
timed_events as (
    select
        *,
        _op not in ('I', 'U', 'B', 'S') as _is_end
    from events
),
{%- endif %}

{%- set splits = spec.splits and not spec.folded %}
{%- if splits %}

placed_events as (
    select
        *,
        {{ cdc._is_full_image() }}
        and lag(true) over ({{ event_order }}) is null
        and lead(true) over ({{ event_order }}) is null as __cdc_is_sole
    from timed_events
),

sole_events as (
    select *
    from placed_events
    where __cdc_is_sole
),

other_events as (
    select * except (__cdc_is_sole)
    from placed_events
    where not __cdc_is_sole
),
{%- endif %}

{#- The same event twice stands side by side in the order. -#}
repeated_events as (
    select
        *,
        coalesce(
            lag(struct(_seq, _event_id, _is_end)) over ({{ event_order }}) = struct(_seq, _event_id, _is_end),
            false
        ) as _is_repeated
    from {{ "other_events" if splits else "timed_events" }}
),

neighboring_events as (
    select
        * except (_is_repeated),
        {%- if spec.counted %}
        lead(_seq) over ({{ event_order }}) as __cdc_next_seq,
        {%- endif %}
        lag(struct(_seq, _op, _is_end{{ ", _values" if not resolves }})) over ({{ event_order }}) as __cdc_previous
    from repeated_events
    where not _is_repeated
),

marked_events as (
    select
        {{ "*" if resolves else "* except (_values)" }},
        {%- if not resolves %}
        if(_is_end or _op = 'B', null, _values) as _values,
        {%- endif %}
        not _is_end and coalesce(__cdc_previous._is_end, true) as _is_birth,
        _is_end and not {{ nothing_before }} as _is_close,
        not _is_end and _op <> 'B' as _is_image,
        not _is_end and {{ nothing_before }} as _is_first
    from neighboring_events
),
{%- if resolves %}

resolved_events as (
    select
        * except (_values),
        {{ cdc._resolved_values(spec, event_order) | indent(8) }} as _values
    from marked_events
),
{%- endif %}

compared_events as (
    select
        *,
        _is_image and (_is_first or not {{ cdc._unchanged(spec, spec.tracked, before) }}) as _is_start,
        _is_image and (_is_first or not {{ cdc._unchanged(spec, spec.value_columns, before) }}) as _is_change
    from {{ "resolved_events" if resolves else "marked_events" }}
),

numbered_events as (
    select
        *,
        row_number() over ({{ event_order }}) as _ordinal,
        count_if(_is_start) over ({{ event_order }}) as _version,
        {%- if spec.counted %}
        _is_new and coalesce(_seq < max(if(_is_new, null, _seq)) over (partition by {{ keys }}), false) as _is_late,
        _is_new and (coalesce(_seq = __cdc_previous._seq, false) or coalesce(_seq = __cdc_next_seq, false)) as _is_tied,
        {%- endif %}
        last_value(if(_is_birth, {{ "coalesce(_state._cdc_created_at, " ~ spec.time ~ ")" if spec.stateful else spec.time }}, null), true)
            over ({{ event_order }}) as _created
    from compared_events
),

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
),

versions as (
    select
        {{ keys }},
        {%- for column in spec.value_columns %}
        _values.{{ cdc._quoted(column) }},
        {%- endfor %}
        _seq,
        coalesce(_close._seq, lead(_seq) over ({{ version_order }})) as _seq_end,
        _created as _cdc_created_at,
        _change._seq as _cdc_seq,
        {%- if spec.lives %}
        _events,
        {%- else %}
        {{ cdc._without_sole_event("_events") }} as _events,
        {%- endif %}
        {%- if spec.counted %}
        _effects,
        {%- endif %}
        if(
            _seq is null,
            null,
            {{ "coalesce(_state.dbt_scd_id, " if spec.stateful -}}
            {{ cdc._version_id(spec, "_first_event_id") }}
            {{- ")" if spec.stateful }}
        ) as dbt_scd_id,
        _change._at as dbt_updated_at,
        _from as dbt_valid_from,
        coalesce(_close._at, lead(_from) over ({{ version_order }})) as dbt_valid_to,
        {{ "coalesce(_state._event_id, _first_event_id)" if spec.stateful else "_first_event_id" }} as _event_id,
        lead(_version) over ({{ version_order }}) is null as _cdc_is_latest
    from remembered_events
    {%- if (splits or spec.folded) and not spec.lives %}
    union all
    {{ cdc._sole_versions(spec) | indent(4) }}
    {%- endif %}
)
{%- endif %}
{%- endmacro %}


{#-
    The versions of keys whose only event is a full image. Every rule above is about what an event finds at its key, and these
    find nothing. Most keys of a first load are such, and windows and lists cost them more than all else.
-#}
{% macro _sole_versions(spec) -%}
select
    {{ cdc._column_list(spec.key_columns) }},
    {%- for column in spec.value_columns %}
    _values.{{ cdc._quoted(column) }},
    {%- endfor %}
    _seq,
    if(true, null, _seq) as _seq_end,
    {{ spec.time }} as _cdc_created_at,
    _seq as _cdc_seq,
    {{ cdc._no_events(spec) }} as _events,
    {%- if spec.counted %}
    {{ cdc._counted_effects({"inserted": "_is_new"}) }} as _effects,
    {%- endif %}
    {{ cdc._version_id(spec, "_event_id") }} as dbt_scd_id,
    {{ spec.time }} as dbt_updated_at,
    {{ spec.time }} as dbt_valid_from,
    if(true, null, {{ spec.time }}) as dbt_valid_to,
    _event_id,
    true as _cdc_is_latest
from sole_events
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


{#- The identity of a version: its key, and the position and identity of the event that it began with. -#}
{% macro _version_id(spec, event_id, seq="_seq") -%}
    {%- set id = cdc._numbered_keys(spec) ~ ", " ~ seq ~ ", " ~ event_id ~ " as _first_event_id" -%}
    {{ return("md5(to_json(struct(" ~ id ~ "), map('timeZone', 'UTC')))") }}
{%- endmacro %}


{#-
    The values of the row after an event. A column without a value takes the one before it in this row lifetime; an end ends the
    inheritance.
-#}
{% macro _resolved_values(spec, event_order) -%}
    {%- set fields = [] -%}
    {%- for column in spec.value_columns -%}
        {%- set name = cdc._quoted(column) -%}
        {%- do fields.append(
            "last_value(case when not _is_end and not array_contains(_unset, " ~ cdc._literal(column) ~ ") then named_struct('v', _values."
            ~ name ~ ") when _is_end or _is_birth then named_struct('v', if(true, null, _values." ~ name ~ ")) end, true) over ("
            ~ event_order ~ ").v as " ~ name) -%}
    {%- endfor -%}
    {{ return("if(_is_end or _op = 'B', null, struct(" ~ (fields | join(", ")) ~ "))") }}
{%- endmacro %}


{#- The value columns of events as the struct that the fold carries. It is never empty. -#}
{% macro _values_struct(spec) -%}
    {%- set columns = cdc._column_list(spec.value_columns) -%}
    {{ return("struct(" ~ (columns or "true as _cdc_no_values") ~ ")") }}
{%- endmacro %}


{#- What an event keeps of its values. -#}
{% macro _image_of(spec, columns, values="_values") -%}
    {{ return(values if columns == spec.value_columns else "struct(" ~ cdc._column_list(columns, values) ~ ")") }}
{%- endmacro %}


{#- The key columns by number: what is made of them must not hold their names, which may change. -#}
{% macro _numbered_keys(spec) -%}
    {%- set keys = [] -%}
    {%- for key in spec.key_columns -%}
        {%- do keys.append(cdc._quoted(key) ~ " as key_" ~ loop.index) -%}
    {%- endfor -%}
    {{ return(keys | join(", ")) }}
{%- endmacro %}


{#- True where the row carries the same values as the one before it, whose values `before` gives. -#}
{% macro _unchanged(spec, columns, before) -%}
    {%- if not columns -%}
        {{ return("true") }}
    {%- endif -%}
    {{ return("(" ~ cdc._image_of(spec, columns) ~ " <=> " ~ cdc._image_of(spec, columns, before) ~ ")") }}
{%- endmacro %}


{#- Columns whose change begins no version: the events of a version keep an image of them. -#}
{% macro _untracked(spec) -%}
    {{ return(spec.value_columns | reject("in", spec.tracked) | list) }}
{%- endmacro %}


{#- The columns of a history table, in order. -#}
{% macro _history_columns(spec) -%}
    {{ return(spec.key_columns + spec.value_columns
        + ["_seq", "_seq_end", "_cdc_created_at", "_cdc_seq", "_events", "dbt_scd_id",
        "dbt_updated_at", "dbt_valid_from", "dbt_valid_to", "_event_id", "_cdc_is_latest"]) }}
{%- endmacro %}
