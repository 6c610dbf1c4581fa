{#-
    The shared core of all formats, a chain of CTEs that ends in `identified_events`:
      raw_events         the raw rows of this table, with payload, origin and arrival
      decoded_events     a format's own macro: _cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem, _cdc_table
      held_events        the same, computed once
      given_events       the value each event gives each column
      typed_events       every declared column in its type
      identified_events  with _event_id; _reason is null for good events
    Records that are no change of this table (messages, transaction borders) are left out.

    A lateral view stands where a value is computed once and asked often: Spark moves filters below plain SELECTs and would parse
    a payload anew for each, but never moves them below a generator. What a generator holds is computed in the SELECT below it,
    for Spark compiles that, and never a generator.
-#}
{% macro _decoded_events(d, relation) -%}
    {%- set time = cdc._has_event_time(d) -%}
    {#- What is only shown, in docs for one, needs no raw table to be there. -#}
    {%- if d.traits.columns and (d.renames or d.left_out) and flags.WHICH not in ["compile", "generate"] -%}
        {%- do d.update({"raw_columns": cdc._column_types("select * from " ~ relation) | map("lower") | list}) -%}
    {%- endif -%}
    {%- set decoded = (["_cdc_operation", "_cdc_image", "_cdc_before", "_seq"] + (["_ts"] if time else []) + ["_cdc_problem"]
        + (["_cdc_table"] if d.source_table else [])) | join(", ") -%}
raw_events as (
    select
        {#- A ChangeEvent's own names would clash with those of the raw table. -#}
        {{- "\n        *," if not d.payload or d.traits.json }}
        {{ cdc._payload(d) }} as _payload,
        {{ d.origin or "cast(null as string)" }} as _origin,
        {{ "cast(" ~ d.arrival ~ " as bigint)" if d.arrival else "cast(null as bigint)" }} as _arrived,
        {{ d.problem or "cast(null as string)" }} as _cdc_raw_problem
    from {{ relation }}
    {%- if d.where %}
    where {{ d.where }}
    {%- endif %}
),

decoded_events as (
    {{ context["cdc"]["_decode_" ~ d.format](d) | indent(4) }}
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
    from (select *, struct({{ decoded }}) as _cdc_decoded from decoded_events) as decoded_events
    lateral view outer inline(array(_cdc_decoded)) decoded as {{ decoded }}
),
{%- endif %}

given_events as (
    select
        *,
        {%- for column in d.columns %}
        {%- if cdc._needs_field(d, column) %}
        {{ cdc._debezium_field(d, column.name) }} as {{ cdc._field(column.name) }},
        {%- endif %}
        {{ cdc._event_value(d, column.name) }} as {{ cdc._given(column.name) }}{{ "," if not loop.last }}
        {%- endfor %}
        {%- for column in cdc._hashed_columns(d) if column in d.left_out -%},
        {{ cdc._event_value(d, column.name) }} as {{ cdc._given(column.name) }},
        {{ cdc._says_something(d, column.name) }} as {{ cdc._said(column.name) }}
        {%- endfor %}
    from {{ "decoded_events" if d.traits.columns else "held_events" }}
    where
        _cdc_operation is distinct from 'M'
        {%- if d.source_table %}
        and {{ cdc._is_of_table(d) }}
        {%- endif %}
),

typed_events as (
    select
        _payload,
        _origin,
        _arrived,
        _cdc_raw_problem,
        _cdc_problem,
        {%- if d.source_table %}
        _cdc_table,
        {%- endif %}
        _cdc_operation as _op,
        _seq,
        {%- if time %}
        _ts,
        {%- endif %}
        {%- for column in cdc._hashed_columns(d) %}
        {{ cdc._given(column.name) }},
        {{ cdc._said(column.name) ~ "," if column in d.left_out }}
        {%- endfor %}
        {%- for column in d.columns %}
        {{ cdc._converted(d, cdc._given(column.name), column.type, column.name) }} as {{ cdc._quoted(column.name) }},
        {%- endfor %}
        {%- for key in d.key_columns if not d.keyless %}
        {{ cdc._old_key(d, key) }} as {{ cdc._quoted("_old_" ~ key) }},
        {%- endfor %}
        {{ cdc._unset_columns(d) }} as _unset
    from given_events
),

identified_events as (
    select
        * except (_cdc_problems),
        nullif(_cdc_reasons, '') as _reason,
        {{ cdc._event_hash(d) }} as _event_id
    from (select *, {{ cdc._reasons(d, time) }} as _cdc_problems from typed_events) as typed_events
    lateral view outer explode(array(_cdc_problems)) reasons as _cdc_reasons
)
{%- endmacro %}


{% macro _has_event_time(d) -%}
    {%- if d.event_time is sameas false -%}
        {{ return(false) }}
    {%- elif d.event_time is not none -%}
        {{ return(true) }}
    {%- endif -%}
    {{ return(d.traits.event_time and not (d.format == "dms" and not d.payload)) }}
{%- endmacro %}


{#- The event as text. JSON keeps all that the columns of a typed raw table hold: NULLs, microseconds, bytes, digits. -#}
{% macro _payload(d) -%}
    {%- if d.payload -%}
        {{ return("cast(" ~ cdc._quoted(d.payload) ~ " as string)") }}
    {%- endif -%}
    {{ return(
        "to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
        ~ "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\"))"
    ) }}
{%- endmacro %}


{#- Whether an event is one of the declared source table: its name, or the last parts of it. Nameless events are kept. -#}
{% macro _is_of_table(d) -%}
    {%- set endings = [] -%}
    {%- for name in d.source_table -%}
        {%- do endings.append("endswith(concat('.', _cdc_table), " ~ cdc._literal("." ~ name) ~ ")") -%}
    {%- endfor -%}
    {{ return("coalesce(" ~ (endings | join(" or ")) ~ ", true)") }}
{%- endmacro %}


{#- The value that an image gives a column, or the raw column; by a former name where there is none by the present one. -#}
{% macro _given_value(d, name, image="_cdc_image") -%}
    {%- set found = [] -%}
    {%- for known in cdc._names_of(d, name) | reverse -%}
        {%- set value = cdc._quoted(known) if d.traits.columns else image ~ "[" ~ cdc._literal(known) ~ "]" -%}
        {%- do found.append("case when cast(" ~ value ~ " as string) is not null then " ~ value ~ " else " ~ found[-1] ~ " end"
            if found else value) -%}
    {%- endfor -%}
    {{ return(found[-1]) }}
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


{#- A column's name and its former names. Of typed events, those that the raw table has. -#}
{% macro _names_of(d, name) -%}
    {%- set names = [] -%}
    {%- for known in [name] + d.renames.get(name, []) if not d.raw_columns or known | lower in d.raw_columns -%}
        {%- do names.append(known) -%}
    {%- endfor -%}
    {{ return(names or [name]) }}
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
    {{ return(cdc._as_text(d, name, "case when _cdc_operation <> 'D' and " ~ cdc._is_given(d, name) ~ " then " ~ after ~ " else "
        ~ before ~ " end")) }}
{%- endmacro %}


{% macro _given(name) -%}
    {{ return(cdc._quoted("_cdc_given_" ~ name)) }}
{%- endmacro %}


{#- Whether an event says something of a column that the tables leave out, NULL included, and the column that holds it. -#}
{% macro _says_something(d, name) -%}
    {%- if d.ignore_null_updates is sameas true or name in cdc._as_list(d.ignore_null_updates or none) -%}
        {{ return("false") }}
    {%- endif -%}
    {{ return("(" ~ cdc._is_given(d, name) ~ " or " ~ cdc._is_given(d, name, "_cdc_before") ~ ")") }}
{%- endmacro %}


{% macro _said(name) -%}
    {{ return(cdc._quoted("_cdc_said_" ~ name)) }}
{%- endmacro %}


{#- Name of the column that holds how the event's own schema describes a column. -#}
{% macro _field(name) -%}
    {{ return(cdc._quoted("_cdc_field_" ~ name)) }}
{%- endmacro %}


{#- The key before the event, set only where the event moved the row to another key. -#}
{% macro _old_key(d, key) -%}
    {%- set types = {} -%}
    {%- for column in d.columns -%}{%- do types.update({column.name: column.type}) -%}{%- endfor -%}
    {%- if d.traits.columns -%}
        {{ return("cast(null as " ~ types[key] ~ ")") }}
    {%- endif -%}
    {%- set kept = [] -%}
    {%- set moved = [] -%}
    {%- for name in d.key_columns -%}
        {%- set given = cdc._is_given(d, name, "_cdc_before") -%}
        {%- set change = cdc._as_text(d, name, cdc._given_value(d, name, "_cdc_before")) ~ " is distinct from "
            ~ cdc._as_text(d, name, cdc._given_value(d, name)) -%}
        {%- if d.traits.changed_before -%}
            {%- do moved.append("(" ~ given ~ " and " ~ change ~ ")") -%}
        {%- else -%}
            {%- do kept.append(given ~ " and ") -%}
            {%- do moved.append(change) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set old = cdc._as_text(d, key, cdc._given_value(d, key, "_cdc_before")) -%}
    {%- if d.traits.changed_before -%}
        {#- A before image of the changed columns only: the other parts of the key are as they were. -#}
        {%- set old = "case when " ~ cdc._is_given(d, key, "_cdc_before") ~ " then " ~ old ~ " else " ~ cdc._given(key) ~ " end" -%}
    {%- endif -%}
    {{ return(
        "case when _cdc_operation = 'U' and " ~ (kept | join("")) ~ "(" ~ (moved | join(" or ")) ~ ") then "
        ~ cdc._converted(d, old, types[key], key) ~ " end"
    ) }}
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
                ~ cdc._is_given(d, column.name, "_cdc_before")) -%}
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


{#-
    The identity of an event: what it did, where, and the values that it carried. It outlives changes of the declaration. Each value goes in
    under the column's oldest name and as it was given, not as its type of today; a column that the event says nothing of adds nothing,
    and one that the tables leave out goes in as before.
-#}
{% macro _event_hash(d) -%}
    {%- set by_oldest_name = {} -%}
    {%- for column in cdc._hashed_columns(d) -%}
        {%- do by_oldest_name.update({([column.name] + d.renames.get(column.name, [])) | last: column}) -%}
    {%- endfor -%}
    {%- set parts = ["_op", "_seq"] -%}
    {%- for oldest, column in by_oldest_name | dictsort(case_sensitive=true) -%}
        {%- set given = cdc._given(column.name) -%}
        {%- set is_said = cdc._said(column.name) if column in d.left_out
            else "not array_contains(_unset, " ~ cdc._literal(column.name) ~ ")" -%}
        {%- set absent_is_null = d.traits.columns or d.traits.absent == "null" -%}
        {%- set says_null = "" if absent_is_null else " or (_op in ('I', 'U') and " ~ is_said ~ ")" -%}
        {%- do parts.append("case when " ~ given ~ " is not null" ~ says_null ~ " then " ~ cdc._literal(oldest) ~ " end") -%}
        {%- do parts.append(cdc._widest("try_cast(" ~ given ~ " as " ~ column.type ~ ")" if column in d.left_out
            else cdc._quoted(column.name), column.type) if d.traits.columns else given) -%}
    {%- endfor -%}
    {%- for key in d.key_columns if not d.keyless -%}
        {%- set types = d.columns | selectattr("name", "equalto", key) | map(attribute="type") -%}
        {%- do parts.append(cdc._widest(cdc._quoted("_old_" ~ key), types | first)) -%}
    {%- endfor -%}
    {{ return("xxhash64(" ~ (parts | join(", ")) ~ ")") }}
{%- endmacro %}


{#- The declared columns, those that the tables leave out among them. A typed raw table may have lost these. -#}
{% macro _hashed_columns(d) -%}
    {%- set columns = d.columns | list -%}
    {%- for column in d.left_out if not d.raw_columns or column.name | lower in d.raw_columns -%}
        {%- do columns.append(column) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro %}


{#- A value that hashes the same after its type was widened. -#}
{% macro _widest(value, type) -%}
    {%- if type in ["tinyint", "byte", "smallint", "short", "int", "integer"] -%}
        {{ return("cast(" ~ value ~ " as bigint)") }}
    {%- elif type in ["float", "real"] -%}
        {{ return("cast(" ~ value ~ " as double)") }}
    {%- elif type == "date" -%}
        {{ return("cast(" ~ value ~ " as timestamp_ntz)") }}
    {%- elif cdc._decimal_digits(type) -%}
        {%- set text = "cast(" ~ value ~ " as string)" -%}
        {{ return("rtrim('.', rtrim('0', " ~ text ~ "))" if cdc._decimal_digits(type)[1] else text) }}
    {%- endif -%}
    {{ return(value) }}
{%- endmacro %}


{#- Every reason why an event cannot be applied. -#}
{% macro _reasons(d, time) -%}
    {%- set row_event = "_op in ('I', 'U', 'D')" -%}
    {%- set reasons = ["coalesce(_cdc_raw_problem, _cdc_problem)"] -%}
    {%- if d.source_table -%}
        {%- do reasons.append("case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _cdc_table is null then"
            ~ " 'no table name' end") -%}
    {%- endif -%}
    {%- set sound = "coalesce(_cdc_raw_problem, _cdc_problem) is null" -%}
    {%- do reasons.append("case when " ~ sound ~ " and _seq is null then 'no sequence' end") -%}
    {%- if time -%}
        {%- do reasons.append("case when " ~ sound ~ " and _ts is null then 'no event time' end") -%}
    {%- endif -%}
    {%- if d.insert_only -%}
        {%- do reasons.append(
            "case when _op in ('U', 'D', 'T') then concat('operation ', _op, ' in a table that is insert_only') end") -%}
    {%- endif -%}
    {%- for key in d.key_columns if not d.keyless -%}
        {%- do reasons.append(
            "case when " ~ sound ~ " and " ~ row_event ~ " and " ~ cdc._quoted(key) ~ " is null and cast(" ~ cdc._given(key)
            ~ " as string) is null then "
            ~ cdc._literal("no value for key column " ~ key) ~ " end") -%}
    {%- endfor -%}
    {%- for column in d.columns if column.type != "string" -%}
        {%- do reasons.append(
            "case when " ~ row_event ~ " and " ~ cdc._misfit(d, column) ~ " then concat("
            ~ cdc._literal("column " ~ column.name ~ ": ") ~ ", left(cast(" ~ cdc._given(column.name) ~ " as string), 100), "
            ~ cdc._literal(" is not a " ~ column.type) ~ ") end") -%}
    {%- endfor -%}
    {{ return("concat_ws('; ', " ~ (reasons | join(", ")) ~ ")") }}
{%- endmacro %}
