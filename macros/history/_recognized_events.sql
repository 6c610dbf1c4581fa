{#-
    Events that a table knows under another identity. The identity is a hash of what the declaration takes from an event: after a
    column was declared, or another package computes it, an event that is read again has another one. It is the same event if it
    stands at the same position of the same row and says the same of all columns that were declared when it was first read.

    It keeps the identity that the table knows it by, and says of the new columns what it says now. Of columns that were dropped
    it says what it said then. Reads the CTEs `new_events` and `known_events`; gives `recognized_events`, and both without those.
-#}
{% macro _recognized_events(spec) -%}
{{ cdc._candidate_events(spec) }},

recognized_events as (
    select *
    from candidate_events
    where _of_known = 1 and _of_given = 1
    {%- if spec.partial %}
    union all
    select *
    from identical_events
    {%- endif %}
),

other_new_events as (
    select new_events.*
    from new_events
    left anti join recognized_events as recognized
        on
            recognized._given_event_id = new_events._event_id
            and recognized._seq = new_events._seq
            and recognized._op = new_events._op
            {%- if not spec.by_position %}
            and {{ cdc._same(spec.key_columns, "recognized", "new_events") }}
            {%- endif %}
),

other_known_events as (
    select known_events.*
    from known_events
    left anti join recognized_events as recognized
        on
            {{ cdc._same(spec.key_columns + ["_seq", "_event_id"], "recognized", "known_events") }}
            and if(known_events._op = 'I', 'U', known_events._op) = if(recognized._op = 'I', 'U', recognized._op)
),

recalled_events as (
    select
        {{ cdc._column_list(spec.key_columns) }},
        _values,
        _op,
        _seq,
        {{ "_ts," if spec.time == "_ts" }}
        _event_id,
        _unset,
        false as _is_new
    from recognized_events
)
{%- endmacro %}


{#-
    What a table says of the identities of its events: how they are computed, and which columns were added since it was built.
    Where they are computed in another way than before, it says so from then on, and the spec with it.
-#}
{% macro _with_identities(spec, properties) -%}
    {%- set now = cdc._identity(spec) -%}
    {%- set former = properties.get("cdc.identity") -%}
    {%- set added = properties.get("cdc.added", "").split("\n") | select | list -%}
    {%- if now is none or former == now -%}
        {{ return(cdc._recognizing(spec, "cdc.added" in properties, added)) }}
    {%- endif -%}
    {%- set traits = {"cdc.identity": now} -%}
    {%- if former is not none -%}
        {%- set there = cdc._by_lower_name(cdc._column_types(spec.relation)) -%}
        {%- for column in spec.value_columns if column | lower not in there
            and not spec.renames.get(column, []) | map("lower") | select("in", there) | list -%}
            {%- do added.append(column | lower) -%}
        {%- endfor -%}
        {%- do traits.update({"cdc.added": added | join("\n")}) -%}
    {%- endif -%}
    {%- do run_query("alter table " ~ spec.relation ~ " set " ~ cdc._tblproperties(traits)) -%}
    {{ return(cdc._recognizing(spec, "cdc.added" in traits, added)) }}
{%- endmacro %}


{% macro _recognizing(spec, recognizes, added) -%}
    {{ return(dict(
        spec, recognizes=recognizes, added=added, by_position=recognizes and spec.declaration is not none and spec.declaration.keyless
    )) }}
{%- endmacro %}


{#- How the events of a declaration are identified, as one text; none where nothing is declared, or a resolver holds the events. -#}
{% macro _identity(spec) -%}
    {%- set d = spec.declaration -%}
    {{ return(local_md5(cdc._event_hash(d, false)) if d and not spec.follows else none) }}
{%- endmacro %}
