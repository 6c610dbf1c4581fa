{#-
    The shared core of all formats, a chain of CTEs that ends in `identified_events`:
      raw_events         the raw rows of this table, with payload, origin and arrival
      read_events        a format's own macro: what it makes of them, beside the raw columns
      decoded_events     its result: _cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem, _cdc_table
      held_events        the same, computed once
      given_events       the value each event gives each column
      typed_events       every declared column in its type
      identified_events  with _event_id; _reason is null for good events
    Where an erasure list is there, the last one holds no event of a listed key: in `judged_events` these are `__cdc_is_erased`.
    For a declaration that `sees_erased` it holds all.

    Amendments are events among them. A declaration whose `amended` is false has none. Records that are no change of this table
    (messages, transaction borders) are left out. Where the table starts from a snapshot, the last one holds its rows as well; in
    `placed_events` what the snapshot covers is `__cdc_is_covered`.

    Up to `read_events` the raw table's own columns are there, for the expressions of the declaration. What stands beside them
    begins with __cdc_, but for the struct `_message`.

    A lateral view stands where a value is computed once and asked often: Spark moves filters below plain SELECTs and would parse
    a payload again for each, but never moves them below a generator. What a generator holds is computed in the SELECT below it,
    for Spark compiles that, and never a generator. Columns are made as the fields of one struct, for Spark compares each column
    that a SELECT computes with every other one to infer filters: planning 400 of them would take minutes.
-#}
{% macro _decoded_events(d, relation) -%}
    {%- set time = cdc._has_event_time(d) -%}
    {%- set decoded = (["_cdc_operation", "_cdc_image", "_cdc_before", "_seq"] + (["_ts"] if time else []) + ["_cdc_problem"]
        + (["_cdc_is_whole"] if d.format == "debezium" else []) + (["_cdc_table"] if d.source_table else [])) | join(", ") -%}
    {%- set hashed = cdc._hashed_columns(d) -%}
    {%- set keys = d.key_columns if not d.keyless and not d.traits.columns else [] -%}
    {%- set erasures = cdc._erasures_of(d) -%}
    {%- set bootstrap = cdc._bootstrap_of(d, relation) -%}
    {%- set amendments = cdc._amendments_of(d, relation) -%}
    {%- set last = "all_events" if erasures else "identified_events" -%}
    {%- set source = "source_events" if amendments else last -%}
    {%- set given, given_names = [], [] -%}
    {%- for column in hashed -%}
        {%- if cdc._needs_field(d, column) and column not in d.left_out -%}
            {%- do given.append(cdc._debezium_field(d, column.name)) -%}
            {%- do given_names.append(cdc._field(column.name)) -%}
        {%- endif -%}
        {%- do given.append(cdc._event_value(d, column.name)) -%}
        {%- do given_names.append(cdc._given(column.name)) -%}
        {%- if column in d.left_out -%}
            {%- do given.append(cdc._says_something(d, column.name)) -%}
            {%- do given_names.append(cdc._said(column.name)) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if d.changed_columns -%}
        {%- do given.append(cdc._changed_columns(d)) -%}
        {%- do given_names.append("__cdc_changed_columns") -%}
    {%- endif -%}
    {%- for key in keys -%}
        {%- do given.append(cdc._given_old_key(d, key)) -%}
        {%- do given_names.append(cdc._given("old " ~ key)) -%}
    {%- endfor -%}
    {%- set typed, typed_names, typed_columns = [], [], [] -%}
    {%- for column in d.columns -%}
        {%- do typed.append(cdc._table_value(d, column, cdc._given(column.name))) -%}
        {%- do typed_names.append(cdc._view_column(column.name)) -%}
        {%- set quoted = cdc._quoted(column.name) -%}
        {%- do typed_columns.append(quoted if quoted == typed_names[-1] else typed_names[-1] ~ " as " ~ quoted) -%}
        {%- if column.name in keys -%}
            {%- do typed.append(cdc._table_value(d, column, cdc._given("old " ~ column.name))) -%}
            {%- do typed_names.append(cdc._view_column("__cdc_old_" ~ column.name)) -%}
            {%- do typed_columns.append(typed_names[-1]) -%}
        {%- endif -%}
    {%- endfor -%}
{%- set masks = d.columns | selectattr("mask") | list | length > 0 -%}
raw_events as (
    {{ cdc._raw_events(d, relation) | indent(4) }}
),

{%- if masks %}

mask_keys as (
    {{ cdc._mask_keys(d) | indent(4) }}
),
{%- endif %}

read_events as (
    {{ context["cdc"]["_decode_" ~ d.format](d) | indent(4) }}
),

decoded_events as (
    select
        __cdc_payload as _payload,
        __cdc_origin as _origin,
        __cdc_arrived as _arrived,
        __cdc_raw_problem as _cdc_raw_problem,
        __cdc_operation as _cdc_operation,
        {%- if d.traits.columns %}
        struct({{ given | join(", ") }}) as __cdc_given,
        {%- else %}
        __cdc_image as _cdc_image,
        __cdc_before as _cdc_before,
        {%- endif %}
        {{- "\n        _message,\n        __cdc_is_whole as _cdc_is_whole," if d.format == "debezium" }}
        {%- if d.source_table %}
        __cdc_table as _cdc_table,
        {%- endif %}
        __cdc_seq as _seq,
        {%- if time %}
        __cdc_ts as _ts,
        {%- endif %}
        __cdc_problem as _cdc_problem
    from read_events
),

{%- if not d.traits.columns %}

held_events as (
    select
        _payload,
        _origin,
        _arrived,
        _cdc_raw_problem,
        {{- "\n        _message," if d.format == "debezium" }}
        decoded.*
    from (
        select
            * except ({{ decoded }}),
            struct({{ decoded }}) as __cdc_decoded
        from decoded_events
    ) as decoded_events
    lateral view outer inline(array(__cdc_decoded)) decoded as {{ decoded }}
),
{%- endif %}

given_events as (
    select *
    from (
        select
            *
            {%- if not d.traits.columns %},
            struct({{ given | join(", ") }}) as __cdc_given
            {%- endif %}
        from {{ "decoded_events" if d.traits.columns else "held_events" }}
        where
            _cdc_operation is distinct from 'M'
            {%- if d.source_table %}
            and {{ cdc._is_of_table(d) }}
            {%- endif %}
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as {{ given_names | join(", ") }}
),

typed_events as (
    select
        _payload,
        _origin,
        _arrived,
        _cdc_raw_problem,
        _cdc_problem,
        {{- "\n        _cdc_is_whole," if d.format == "debezium" }}
        {%- if d.source_table %}
        _cdc_table,
        {%- endif %}
        _cdc_operation as _op,
        _seq,
        {%- if time %}
        _ts,
        {%- endif %}
        {%- for name in given_names %}
        {{ name }},
        {%- endfor %}
        {%- for column in typed_columns %}
        {{ column }},
        {%- endfor %}
        _unset
    from (
        select{{ " /*+ broadcast(mask_keys) */" if masks }}
            *,
            struct({{ typed | join(", ") }}, {{ cdc._unset_columns(d) }}) as __cdc_typed
        from given_events
        {{- "\n        cross join mask_keys" if masks }}
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as {{ typed_names | join(", ") }}, _unset
),

{{ "stream_events" if bootstrap else source }} as (
    select
        *,
        {{ cdc._event_hash(d) }} as _event_id
    from (
        select
            *,
            {%- for key in d.key_columns if not d.keyless %}
            {{ cdc._old_key(d, key) }} as {{ cdc._quoted("_old_" ~ key) }},
            {%- endfor %}
            {{ cdc._reasons(d, time) }} as _reason
        from typed_events
    ) as typed_events
)
{%- if bootstrap %},

{{ cdc._with_bootstrap(d, bootstrap, source) }}
{%- endif %}
{%- if amendments %},

{{ cdc._with_amendments(d, amendments, source, last) }}
{%- endif %}
{%- if erasures %},

{{ cdc._without_erased(d, erasures) }}
{%- endif %}
{%- endmacro %}


{% macro _has_event_time(d) -%}
    {%- if d.event_time is sameas false -%}
        {{ return(false) }}
    {%- elif d.event_time is not none -%}
        {{ return(true) }}
    {%- endif -%}
    {{ return(d.traits.event_time and not (d.format == "dms" and not d.payload)) }}
{%- endmacro %}


{#- Whether an event is one of the declared source table: its name, or the last parts of it. Nameless events are kept. -#}
{% macro _is_of_table(d) -%}
    {%- set endings = [] -%}
    {%- for name in d.source_table -%}
        {%- do endings.append("endswith(concat('.', _cdc_table), " ~ cdc._literal("." ~ name) ~ ")") -%}
    {%- endfor -%}
    {{ return("coalesce(" ~ (endings | join(" or ")) ~ ", true)") }}
{%- endmacro %}


{#- Database, schema and table as one name; NULL where the table is not named. -#}
{% macro _dotted(parts) -%}
    {{ return("case when nullif(" ~ parts[-1] ~ ", '') is not null then concat_ws('.', " ~ (parts | join(", ")) ~ ") end") }}
{%- endmacro %}


{#- The value that an image gives a column, or the raw column. -#}
{% macro _given_value(d, name, image="_cdc_image") -%}
    {{ return(cdc._raw_column(d, name) if d.traits.columns else cdc._latest_named(d, name, image)) }}
{%- endmacro %}


{#- The same by a former name where there is none by the present one. -#}
{% macro _latest_named(d, name, image=none) -%}
    {%- set found = [] -%}
    {%- for known in cdc._names_of(d, name) | reverse -%}
        {%- set value = image ~ "[" ~ cdc._literal(known) ~ "]" if image else cdc._quoted(known) -%}
        {%- do found.append("case when cast(" ~ value ~ " as string) is not null then " ~ value ~ " else " ~ found[-1] ~ " end"
            if found else value) -%}
    {%- endfor -%}
    {{ return(found[-1]) }}
{%- endmacro %}


{#- A value in the type of the tables, from what an event gives. -#}
{% macro _table_value(d, column, given) -%}
    {%- set value = cdc._converted(d, given, column.type, column.name) -%}
    {{ return(cdc._masked(value, column.type) if column.mask else value) }}
{%- endmacro %}


{#- Whether an event gives a column a value at all. -#}
{% macro _is_given(d, name, image="_cdc_image") -%}
    {%- if d.traits.columns -%}
        {{ return("true") }}
    {%- elif d.traits.absent == "null" and image == "_cdc_image" -%}
        {{ return("(" ~ image ~ " is not null)") }}
    {%- endif -%}
    {%- set given = [] -%}
    {%- for known in cdc._names_of(d, name) -%}
        {%- if d.traits.null_before == "absent" and image == "_cdc_before" -%}
            {%- set value = image ~ "[" ~ cdc._literal(known) ~ "]" -%}
            {%- do given.append("(" ~ value ~ " is not null and not is_variant_null(" ~ value ~ "))") -%}
        {%- else -%}
            {%- do given.append("coalesce(map_contains_key(" ~ image ~ ", " ~ cdc._literal(known) ~ "), false)") -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return("(" ~ (given | join(" or ")) ~ ")" if given | length > 1 else given[0]) }}
{%- endmacro %}


{#- A column's name and its former names. -#}
{% macro _names_of(d, name) -%}
    {{ return([name] + d.renames.get(name, [])) }}
{%- endmacro %}


{#- A value of an image as text. -#}
{% macro _as_text(d, name, value) -%}
    {%- for column in d.columns + d.left_out if column.name == name and cdc._keeps_tokens(d, column.type) -%}
        {{ return("nullif(to_json(" ~ value ~ "), 'null')") }}
    {%- endfor -%}
    {{ return("cast(" ~ value ~ " as string)") }}
{%- endmacro %}


{#- After image; for a delete, and for a value the source left out because it did not change, the before image. -#}
{% macro _event_value(d, name) -%}
    {%- set after = cdc._given_value(d, name) -%}
    {%- if d.traits.columns -%}
        {{ return(after) }}
    {%- endif -%}
    {%- set before = cdc._given_value(d, name, "_cdc_before") -%}
    {%- set given = "(" ~ cdc._is_given(d, name) ~ " or _cdc_is_whole)" if d.format == "debezium" else cdc._is_given(d, name) -%}
    {{ return(cdc._as_text(d, name, "case when _cdc_operation <> 'D' and " ~ given ~ " then " ~ after ~ " else "
        ~ before ~ " end")) }}
{%- endmacro %}


{% macro _given(name) -%}
    {{ return(cdc._view_column("__cdc_given_" ~ name)) }}
{%- endmacro %}


{#- A column of a lateral view, without a dot: Spark would take the quotes around a name that has one for a part of the name. -#}
{% macro _view_column(name) -%}
    {{ return(cdc._quoted(name | replace("~", "~0") | replace(".", "~1"))) }}
{%- endmacro %}


{#- Whether an event says something of a column that the tables leave out, NULL included, and the column that holds it. -#}
{% macro _says_something(d, name) -%}
    {%- if d.ignore_null_updates is sameas true or name in cdc._as_list(d.ignore_null_updates or none) -%}
        {{ return("false") }}
    {%- endif -%}
    {{ return("(" ~ cdc._is_given(d, name) ~ " or " ~ cdc._is_given(d, name, "_cdc_before") ~ ")") }}
{%- endmacro %}


{% macro _said(name) -%}
    {{ return(cdc._view_column("__cdc_said_" ~ name)) }}
{%- endmacro %}


{#- Name of the column that holds how the event's own schema describes a column. -#}
{% macro _field(name) -%}
    {{ return(cdc._view_column("__cdc_field_" ~ name)) }}
{%- endmacro %}


{#- The columns an upsert carries no value for; a NULL that `ignore_null_updates` covers counts as none. -#}
{% macro _unset_columns(d) -%}
    {%- set ignored = d.columns | map(attribute="name") | list if d.ignore_null_updates is sameas true
        else cdc._as_list(d.ignore_null_updates or none) -%}
    {%- set parts = [] -%}
    {%- for column in d.columns if column.name not in d.key_columns -%}
        {%- set unset = [] -%}
        {%- if not d.traits.columns -%}
            {%- do unset.append("not " ~ cdc._is_given(d, column.name) ~ " and not "
                ~ cdc._is_given(d, column.name, "_cdc_before") ~ (" and not _cdc_is_whole" if d.format == "debezium")) -%}
        {%- endif -%}
        {%- if d.changed_columns -%}
            {%- set names = [] -%}
            {%- for name in cdc._names_of(d, column.name) -%}{%- do names.append(cdc._literal(name | lower)) -%}{%- endfor -%}
            {%- do unset.append("_cdc_operation = 'U' and not arrays_overlap(__cdc_changed_columns, array("
                ~ (names | join(", ")) ~ "))") -%}
        {%- endif -%}
        {%- if column.name in ignored -%}
            {%- do unset.append("cast(" ~ cdc._given(column.name) ~ " as string) is null") -%}
        {%- endif -%}
        {%- if unset -%}
            {%- do parts.append("case when " ~ (unset | join(" or ")) ~ " then " ~ cdc._literal(column.name) ~ " end") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not parts -%}
        {{ return("cast(array() as array<string>)") }}
    {%- endif -%}
    {{ return("case when _cdc_operation in ('I', 'U') then array_except(array(" ~ (parts | join(", "))
        ~ "), array(null)) else cast(array() as array<string>) end") }}
{%- endmacro %}


{#- The columns that a row says it changed, in lower case: an array, or names with commas between them. NULL: it says nothing. -#}
{% macro _changed_columns(d) -%}
    {{ return("split(lower(regexp_replace(cast(" ~ d.changed_columns ~ " as string), '[\\\\[\\\\]{}\"\\\\s]', '')), ',')") }}
{%- endmacro %}
