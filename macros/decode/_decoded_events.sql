{#-
    The shared core of all formats, a chain of CTEs that ends in `identified_events`:
      raw_events         the raw rows of this table, with payload, origin and arrival
      read_events        a format's own macro: what it makes of them, beside the raw columns
      decoded_events     its result: _cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem, _cdc_table
      held_events        the same, computed once
      given_events       the value each event gives each column: `_given_events` has the two before it as well
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
    {%- set masks = d.columns | selectattr("mask") | list -%}
    {%- set given = cdc._given_columns(d) -%}
    {%- set erasures = cdc._erasures_of(d) -%}
    {%- set bootstrap = cdc._bootstrap_of(d, relation) -%}
    {%- set amendments = cdc._amendments_of(d, relation) -%}
    {%- set last = "all_events" if erasures else "identified_events" -%}
    {%- set source = "source_events" if amendments else last -%}
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

{{ cdc._given_events(d, given) }},

{{ cdc._typed_events(d, given.names) }},

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
            {{ cdc._reasons(d) }} as _reason
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


{#- The columns that a row says it changed, in lower case: an array, or names with commas between them. NULL: it says nothing. -#}
{% macro _changed_columns(d) -%}
    {{ return("split(lower(regexp_replace(cast(" ~ d.changed_columns ~ " as string), '[\\\\[\\\\]{}\"\\\\s]', '')), ',')") }}
{%- endmacro %}
