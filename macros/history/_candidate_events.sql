{#-
    Pairs of a known event and a new one that may be the same, as CTEs of `new_events` and `known_events`. In `candidate_events` the
    two have other identities, and stand next to each other among the events of their position (_of_known, _of_given). In
    `identical_events` they have one identity: only where events may leave columns unset.
-#}
{% macro _candidate_events(spec) -%}
    {%- set keys = cdc._column_list(spec.key_columns) -%}
    {%- set is_same = cdc._same(spec.key_columns + ["_seq", "_event_id"], "known_events", "new_events") -%}
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
