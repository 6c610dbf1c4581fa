{#-
    Events to versions: the rules of meaning in plain SELECTs, here and in the steps below. They stand nowhere else.

    Reads the CTEs `events` and `truncates` (positions); gives a chain of CTEs, each read once, that ends in `versions`: one row a
    version, and one row without dbt_scd_id for each key that has ends only. The steps, each in a file of its own:
      _timed_events      the events, and the ends that truncates bring
      _sole_events       apart from the others, keys whose only event is a full image: where `spec.splits`
      _marked_events     what each event finds before it at its key
      _numbered_events   what each event does to its row, and the version that it belongs to
      _grouped_events    one row a version, with what it remembers of its events

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
    {%- set splits = spec.splits and not spec.folded -%}
    {%- set version_order = "partition by " ~ cdc._column_list(spec.key_columns) ~ " order by _version" -%}
{%- if spec.folded and not spec.folded.count %}
versions as (
    {{ cdc._sole_versions(spec) | indent(4) }}
)
{%- else %}
{{ cdc._timed_events(spec) }},
{%- if splits %}

{{ cdc._sole_events(spec) }},
{%- endif %}

{{ cdc._marked_events(spec, "other_events" if splits else "timed_events") }},

{{ cdc._numbered_events(spec) }},

{{ cdc._grouped_events(spec) }},

versions as (
    select
        {{ cdc._column_list(spec.key_columns) }},
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


{#- The identity of a version: its key, and the position and identity of the event that it began with. -#}
{% macro _version_id(spec, event_id, seq="_seq") -%}
    {%- set id = cdc._numbered_keys(spec) ~ ", " ~ seq ~ ", " ~ event_id ~ " as _first_event_id" -%}
    {{ return("md5(to_json(struct(" ~ id ~ "), map('timeZone', 'UTC')))") }}
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
