{#-
    Events to versions: the rules of meaning in plain SELECTs, the only place where they stand.

    Reads the CTEs `events` and `truncates` (positions); gives a chain of CTEs, each read once, that ends in `versions`: one row a version,
    and one row without dbt_scd_id for each key that has ends only.

    An event has the key columns, `_values` (a struct of the value columns), `_op`, `_seq`, `_ts`, `_event_id` and `_unset`. Beside the
    operations of the canonical event it can be
      M   the end of a key whose row moved to another key
      B   where a row lifetime began whose first versions were dropped by a compaction: no value, only a birth
      S   the state of a known version: what it became counts as one event, its `_state` carries the version on
      E   the end of that version
    `_events` holds what a later run needs to fold the key again. It is NULL where the version says all of it by itself: a single full image.

      spec.key_columns, spec.value_columns   lists of columns
      spec.tracked      columns whose change begins a version
      spec.time         column of valid_from and valid_to: _ts, or _seq where no event time is declared
      spec.partial      whether events may leave columns unset
      spec.truncated    whether there may be truncates
      spec.stateful     whether events have a `_state`
      spec.counted      whether events say if they are new (_is_new), and versions what the new ones did (_effects)
      spec.lives        whether a version is a whole row lifetime, whose events keep all their values
-#}
{% macro _versions(spec) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
    {%- set times = "_ts, " if spec.time == "_ts" else "" -%}
    {%- set tie_order = "_event_id, " ~ ("_is_new, " if spec.counted) ~ "_op" -%}
    {%- set event_order = "partition by " ~ keys ~ " order by _seq, _is_end, " ~ tie_order -%}
    {%- set version_order = "partition by " ~ keys ~ " order by _version" -%}
    {%- set kept = (spec.value_columns if spec.keeps_images else []) if spec.lives else cdc._untracked(spec) -%}
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

{#- The same event twice stands side by side in the order. -#}
repeated_events as (
    select
        *,
        coalesce(
            lag(struct(_seq, _event_id, _is_end)) over ({{ event_order }}) = struct(_seq, _event_id, _is_end),
            false
        ) as _is_repeated
    from timed_events
),

ordered_events as (
    select
        * except (_is_repeated),
        row_number() over ({{ event_order }}) as _ordinal,
        {%- if spec.counted %}
        _is_new and coalesce(_seq < max(if(_is_new, null, _seq)) over (partition by {{ keys }}), false) as _is_late,
        _is_new and (
            coalesce(_seq = lag(_seq) over ({{ event_order }}), false)
            or coalesce(_seq = lead(_seq) over ({{ event_order }}), false)
        ) as _is_tied,
        {%- endif %}
        not _is_end and coalesce(lag(_is_end) over ({{ event_order }}), true) as _is_birth,
        _is_end and not coalesce(lag(_is_end or _op = 'B') over ({{ event_order }}), true) as _is_close
    from repeated_events
    where not _is_repeated
),

resolved_events as (
    select
        * except (_values),
        {{ cdc._resolved_values(spec, event_order) | indent(8) }} as _values,
        last_value(if(_is_birth, {{ "coalesce(_state._cdc_created_at, " ~ spec.time ~ ")" if spec.stateful else spec.time }}, null), true)
            over ({{ event_order }}) as _created,
        not _is_end and _op <> 'B' as _is_image,
        _is_birth or coalesce(lag(_op) over ({{ event_order }}) = 'B', false) as _is_first
    from ordered_events
),

compared_events as (
    select
        *,
        _is_image and (_is_first or not {{ cdc._unchanged(spec, spec.tracked, event_order) }}) as _is_start,
        _is_image and (_is_first or not {{ cdc._unchanged(spec, spec.value_columns, event_order) }}) as _is_change
    from resolved_events
),

numbered_events as (
    select
        *,
        count_if(_is_start) over ({{ event_order }}) as _version
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
        if(size(_events) = 1 and _events[0]._op = 'U' and size(_events[0]._unset) = 0, null, _events) as _events,
        {%- endif %}
        {%- if spec.counted %}
        _effects,
        {%- endif %}
        if(
            _seq is null,
            null,
            {{ "coalesce(_state.dbt_scd_id, " if spec.stateful -}}
            md5(to_json(struct({{ cdc._numbered_keys(spec) }}, _seq, _first_event_id), map('timeZone', 'UTC')))
            {{- ")" if spec.stateful }}
        ) as dbt_scd_id,
        _change._at as dbt_updated_at,
        _from as dbt_valid_from,
        coalesce(_close._at, lead(_from) over ({{ version_order }})) as dbt_valid_to,
        {{ "coalesce(_state._event_id, _first_event_id)" if spec.stateful else "_first_event_id" }} as _event_id,
        lead(_version) over ({{ version_order }}) is null as _cdc_is_latest
    from remembered_events
)
{%- endmacro %}


{#-
    The values of the row after an event. A column without a value takes the one before it in this row lifetime; an end ends the
    inheritance.
-#}
{% macro _resolved_values(spec, event_order) -%}
    {%- if not spec.partial or not spec.value_columns -%}
        {{ return("if(_is_end or _op = 'B', null, _values)") }}
    {%- endif -%}
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
{% macro _values_struct(spec, alias=none) -%}
    {%- set columns = cdc._column_list(spec.value_columns, alias) -%}
    {{ return("struct(" ~ (columns or "true as _cdc_no_values") ~ ")") }}
{%- endmacro %}


{#- What an event keeps of its values. -#}
{% macro _image_of(spec, columns) -%}
    {{ return("_values" if columns == spec.value_columns else "struct(" ~ cdc._column_list(columns, "_values") ~ ")") }}
{%- endmacro %}


{#- The key columns by number: what is made of them must not hold their names, which may change. -#}
{% macro _numbered_keys(spec) -%}
    {%- set keys = [] -%}
    {%- for key in spec.key_columns -%}
        {%- do keys.append(cdc._quoted(key) ~ " as key_" ~ loop.index) -%}
    {%- endfor -%}
    {{ return(keys | join(", ")) }}
{%- endmacro %}


{#- True where the row carries the same values as the one before it. -#}
{% macro _unchanged(spec, columns, event_order) -%}
    {%- if not columns -%}
        {{ return("true") }}
    {%- endif -%}
    {%- set row = cdc._image_of(spec, columns) -%}
    {{ return("(" ~ row ~ " <=> lag(" ~ row ~ ") over (" ~ event_order ~ "))") }}
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
