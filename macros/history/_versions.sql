{#-
    Events to versions: the rules of meaning in plain SELECTs, the only place where they stand.

    Reads the CTEs `events` (all that is known of the keys, a moved key's end as M) and `truncates` (positions); gives a
    chain of CTEs, each read once, that ends in `versions`: one row a version, and one row without dbt_scd_id for each key
    that has ends only. `_events` holds what a later run needs to fold the key again. After a compaction it can begin with B, where a life
    began whose first versions are gone: no value, only a birth.
      t.key_columns, t.value_columns   lists of columns
      t.tracked                        columns whose change begins a version
      t.time                           column of valid_from and valid_to: _ts, or _seq where no event time is declared
      t.counted                        whether events say if they are new (_is_new), and versions what the new ones did (_effects)
-#}
{% macro _versions(t) -%}
    {%- set keys = cdc._column_list(t.key_columns) -%}
    {%- set times = "_ts, " if t.time == "_ts" else "" -%}
    {%- set event_order = "partition by " ~ keys ~ " order by _seq, _is_end, _event_id, _op" ~ (", _is_new" if t.counted) -%}
    {%- set version_order = "partition by " ~ keys ~ " order by _version" -%}
    {%- set untracked = cdc._untracked(t) -%}
truncate_positions as (
    select collect_list(struct(_seq, {{ times }}_event_id)) as _positions
    from truncates
),

{#- Only the first truncate after an event can end its life. It closes what began before it, whenever it arrives. -#}
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
        {%- for column in t.value_columns %}
        {{ cdc._quoted(column) }},
        {%- endfor %}
        if(_is_truncate, 'T', _op) as _op,
        if(_is_truncate, _truncate._seq, _seq) as _seq,
        {%- if t.time == "_ts" %}
        if(_is_truncate, _truncate._ts, _ts) as _ts,
        {%- endif %}
        if(_is_truncate, _truncate._event_id, _event_id) as _event_id,
        _unset,
        {%- if t.counted %}
        _is_new and not _is_truncate as _is_new,
        {%- endif %}
        _is_truncate or _op not in ('I', 'U', 'B') as _is_end
    from closed_events
),

{#- The same event twice stands side by side in the order. -#}
repeated_events as (
    select
        *,
        coalesce(
            lag(struct(_seq, _event_id, _op)) over ({{ event_order }}) = struct(_seq, _event_id, _op),
            false
        ) as _is_repeated
    from timed_events
),

ordered_events as (
    select
        * except (_is_repeated),
        row_number() over ({{ event_order }}) as _ordinal,
        {%- if t.counted %}
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

{#- A column without a value takes the one before it in this life; an end ends the inheritance. -#}
resolved_events as (
    select
        * except ({{ cdc._column_list(t.value_columns + ["_op"]) }}),
        {%- for column in t.value_columns %}
        {%- set name = cdc._quoted(column) %}
        last_value(
            case
                when not _is_end and not array_contains(_unset, {{ cdc._literal(column) }}) then named_struct('v', {{ name }})
                when _is_end or _is_birth then named_struct('v', cast(null as {{ t.types[column] }}))
            end, true
        ) over ({{ event_order }}).v as {{ name }},
        {%- endfor %}
        last_value(if(_is_birth, {{ t.time }}, null), true) over ({{ event_order }}) as _created,
        _op,
        not _is_end and _op <> 'B' as _is_image,
        _is_birth or coalesce(lag(_op) over ({{ event_order }}) = 'B', false) as _is_first
    from ordered_events
),

compared_events as (
    select
        *,
        _is_image and (_is_first or not {{ cdc._unchanged(t.tracked, event_order) }}) as _is_start,
        _is_image and (_is_first or not {{ cdc._unchanged(t.value_columns, event_order) }}) as _is_change
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
        min_by({{ t.time }}, _ordinal) filter (where _is_image) as _from,
        min_by(_event_id, _ordinal) filter (where _is_image) as _first_event_id,
        min_by(struct(_seq, {{ t.time }} as _at), _ordinal) filter (where _is_close) as _close,
        max_by(struct(_seq, {{ t.time }} as _at), _ordinal) filter (where _is_change) as _change,
        min_by(_created, _ordinal) filter (where _is_image) as _created,
        {%- if t.value_columns %}
        max_by(struct({{ cdc._column_list(t.value_columns) }}), _ordinal) filter (where _is_image) as _values,
        {%- endif %}
        {%- if t.counted %}
        struct(
            count_if(_is_new and _is_birth) as inserted,
            count_if(_is_new and _is_change and not _is_birth) as updated,
            count_if(_is_new and _op = 'D' and _is_close) as deleted,
            count_if(_is_new and if(_op = 'D', not _is_close, _is_image and not _is_change)) as unchanged,
            count_if(_is_late and _op <> 'M') as late,
            count_if(_is_tied and _op <> 'M') as tied
        ) as _effects,
        {%- endif %}
        sort_array(collect_list(struct(
            _seq,
            _op,
            _event_id,
            {{ times -}}
            if(_is_end, cast(array() as array<string>), _unset) as _unset
            {%- if untracked %},
            if(_is_end, null, struct({{ cdc._column_list(untracked) }})) as _image
            {%- endif %}
        )) filter (where _op <> 'T' or _is_close)) as _events
    from numbered_events
    group by {{ keys }}, greatest(_version, 1)
),

versions as (
    select
        {{ keys }},
        {%- for column in t.value_columns %}
        _values.{{ cdc._quoted(column) }},
        {%- endfor %}
        _seq,
        coalesce(_close._seq, lead(_seq) over ({{ version_order }})) as _seq_end,
        _created as _cdc_created_at,
        _change._seq as _cdc_seq,
        _events,
        {%- if t.counted %}
        _effects,
        {%- endif %}
        if(_seq is null, null, md5(to_json(struct({{ cdc._numbered_keys(t) }}, _seq, _first_event_id)))) as dbt_scd_id,
        _change._at as dbt_updated_at,
        _from as dbt_valid_from,
        coalesce(_close._at, lead(_from) over ({{ version_order }})) as dbt_valid_to
    from grouped_events
)
{%- endmacro %}


{#- The key columns by number: what is made of them must not hold their names, which may change. -#}
{% macro _numbered_keys(t) -%}
    {%- set keys = [] -%}
    {%- for key in t.key_columns -%}
        {%- do keys.append(cdc._quoted(key) ~ " as key_" ~ loop.index) -%}
    {%- endfor -%}
    {{ return(keys | join(", ")) }}
{%- endmacro %}


{#- True where the row carries the same values as the one before it. -#}
{% macro _unchanged(columns, event_order) -%}
    {%- if not columns -%}
        {{ return("true") }}
    {%- endif -%}
    {%- set row = "struct(" ~ cdc._column_list(columns) ~ ")" -%}
    {{ return("(" ~ row ~ " <=> lag(" ~ row ~ ") over (" ~ event_order ~ "))") }}
{%- endmacro %}


{#- Columns whose change begins no version: the events of a version keep an image of them. -#}
{% macro _untracked(t) -%}
    {{ return(t.value_columns | reject("in", t.tracked) | list) }}
{%- endmacro %}


{#- What an event that is no image of a row keeps of the columns that a version does not. -#}
{% macro _no_image(t, columns) -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}
        {%- do fields.append(cdc._quoted(column) ~ ": " ~ t.types[column]) -%}
    {%- endfor -%}
    {{ return("cast(null as struct<" ~ (fields | join(", ")) ~ ">)") }}
{%- endmacro %}


{#- The columns of a history table, in order. -#}
{% macro _history_columns(t) -%}
    {{ return(t.key_columns + t.value_columns + ["_seq", "_seq_end", "_cdc_created_at", "_cdc_seq", "_events", "dbt_scd_id",
        "dbt_updated_at", "dbt_valid_from", "dbt_valid_to"]) }}
{%- endmacro %}
