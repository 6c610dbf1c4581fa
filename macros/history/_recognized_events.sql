{#-
    Events that a table knows under another identity. The identity is a hash of what the declaration takes from an event: after a
    column was declared, or another package computes it, an event that is read again has another one. It is the same event if it
    stands at the same position of the same row and says the same of all columns that were declared when it was first read.

    It keeps the identity that the table knows it by, and says of the new columns what it says now. Of columns that were dropped
    it says what it said then. Reads the CTEs `new_events` and `known_events`; gives `recognized_events`, and both without those.
-#}
{% macro _recognized_events(spec) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
    {%- set is_same = cdc._same(spec.key_columns + ["_seq", "_event_id"], "known_events", "new_events") -%}
    {%- set times = "_ts," if spec.time == "_ts" else "" -%}
    {%- set columns_of_both -%}
        {{ cdc._column_list(spec.key_columns, "known") }},
        {{ cdc._values_of_both(spec) }} as _values,
        given._op,
        given._seq,
        {{ "given._ts," if spec.time == "_ts" }}
        known._event_id,
        {{ cdc._unset_of_both(spec) }},
        given._event_id as _given_event_id
    {%- endset -%}
unidentified_events as (
    select
        {{ keys }},
        new_events._op,
        new_events._seq,
        {{ "any_value(new_events._ts) as _ts," if spec.time == "_ts" }}
        new_events._event_id,
        any_value(new_events._values) as _values,
        any_value(new_events._unset) as _unset
    from new_events
    left anti join known_events on {{ is_same }}
    group by {{ keys }}, new_events._op, new_events._seq, new_events._event_id
),

unmentioned_events as (
    select known_events.*
    from known_events
    left anti join new_events on {{ is_same }}
),

{#- A column that an event says nothing of adds nothing to its identity. What is unset of the new columns, the event tells now. -#}
{%- if spec.partial %}
identical_events as (
    select
        {{ columns_of_both }},
        1 as _of_known,
        1 as _of_given
    from known_events as known
    inner join (
        select
            {{ keys }},
            _op,
            _seq,
            {{ "any_value(_ts) as _ts," if spec.time == "_ts" }}
            _event_id,
            any_value(_values) as _values,
            any_value(_unset) as _unset
        from new_events
        group by {{ keys }}, _op, _seq, _event_id
    ) as given
        on
            {{ cdc._same(spec.key_columns + ["_seq", "_event_id"], "known", "given") }}
            and if(known._op = 'I', 'U', known._op) = if(given._op = 'I', 'U', given._op)
),

{% endif -%}
candidate_events as (
    select
        {{ columns_of_both }},
        row_number() over (
            partition by {{ cdc._column_list(spec.key_columns, "known") }}, known._seq, known._event_id order by given._event_id
        ) as _of_known,
        row_number() over (
            partition by {{ cdc._column_list(spec.key_columns, "given") }}, given._seq, given._event_id order by known._event_id
        ) as _of_given
    from unmentioned_events as known
    inner join unidentified_events as given
        on
            known._seq = given._seq
            {%- if not spec.by_position %}
            and {{ cdc._same(spec.key_columns, "known", "given") }}
            {%- endif %}
            and if(known._op = 'I', 'U', known._op) = if(given._op = 'I', 'U', given._op)
            and (given._op not in ('I', 'U') or {{ cdc._says_the_same(spec) }})
),

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
        {{ keys }},
        _values,
        _op,
        _seq,
        {{ times }}
        _event_id,
        _unset,
        false as _is_new
    from recognized_events
)
{%- endmacro %}


{#- The values of an event as it is read now; of dropped columns as the table knows them. -#}
{% macro _values_of_both(spec) -%}
    {%- set fields = [] -%}
    {%- for column in spec.value_columns -%}
        {%- set name = cdc._quoted(column) -%}
        {%- do fields.append(("known" if column in spec.dropped else "given") ~ "._values." ~ name ~ " as " ~ name) -%}
    {%- endfor -%}
    {{ return("struct(" ~ (fields | join(", ")) ~ ")" if spec.dropped else "given._values") }}
{%- endmacro %}


{#-
    The columns that an event carries no value for, as it is read now; of dropped columns as the table knows them. A known event
    that said nothing of a column still takes the value of the version before it after the column was dropped.
-#}
{% macro _unset_of_both(spec) -%}
    {%- set dropped = [] -%}
    {%- for column in spec.dropped -%}{%- do dropped.append(cdc._literal(column)) -%}{%- endfor -%}
    {{ return(
        "array_union(given._unset, array_intersect(known._unset, array(" ~ (dropped | join(", ")) ~ "))) as _unset" if dropped and spec.partial
        else "given._unset"
    ) }}
{%- endmacro %}


{#-
    Whether a known event says the same as a new one. No value and NULL count as the same, for `ignore_null_updates` may have
    changed. A column that was added later is NULL in events from before.
-#}
{% macro _says_the_same(spec) -%}
    {%- set known, given, conditions = [], [], [] -%}
    {%- for column in spec.value_columns if column not in spec.dropped -%}
        {%- set name = cdc._quoted(column) -%}
        {%- set value = "known._values." ~ name -%}
        {%- if spec.partial -%}
            {%- set value = "if(array_contains(known._unset, " ~ cdc._literal(column) ~ "), null, " ~ value ~ ")" -%}
        {%- endif -%}
        {%- if ([column] + spec.renames.get(column, [])) | map("lower") | select("in", spec.added) | list -%}
            {%- do conditions.append("(" ~ value ~ " is null or " ~ value ~ " <=> given._values." ~ name ~ ")") -%}
        {%- else -%}
            {%- do known.append(value) -%}
            {%- do given.append("given._values." ~ name) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if known -%}
        {%- do conditions.append("struct(" ~ (known | join(", ")) ~ ") <=> struct(" ~ (given | join(", ")) ~ ")") -%}
    {%- endif -%}
    {#- Of events that were replaced a table without a history keeps no values. -#}
    {{ return("(known._values is null or (" ~ (conditions | join(" and ") or "true") ~ "))") }}
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
