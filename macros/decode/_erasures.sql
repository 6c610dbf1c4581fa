{#-
    The erasure list: a row for each key that was erased, as a hash. Events of these keys are not decoded. None where nothing was
    ever erased; dbt's cache of relations tells, so that no model asks the warehouse while it compiles.
      table_name    the declared source table
      key_hash      see `_key_hash`
      erasure_id    the erasure that listed it last
      counts_from   from where on its events count again: an event time, or else a position; NULL for never
      is_done       whether its erasure has come to its end
-#}
{% macro _erasure_list(relation=none) -%}
    {{ return(adapter.dispatch("erasure_list", "cdc")(relation or cdc._erasures_relation())) }}
{%- endmacro %}


{#- Only the embedded Spark's adapter erases. -#}
{% macro default__erasure_list(relation) -%}
    {{ return(none) }}
{%- endmacro %}


{#- `dbt compile --no-introspect` may not ask at all; nothing is built of what it gives. -#}
{% macro sparkcdc__erasure_list(relation) -%}
    {{ return(none if flags.INTROSPECT is sameas false else load_relation(relation)) }}
{%- endmacro %}


{#-
    What the events of a declared table are divided by: the erasure list, or the list of ranges where keys change. A declaration
    that `sees_erased` is divided by nothing; `erased_by` names ranges that are not on the list yet.
-#}
{% macro _erasures_of(d) -%}
    {%- if d.get("sees_erased") -%}
        {{ return(none) }}
    {%- elif d.key_changes -%}
        {{ return(d.get("erased_by") or cdc._erasure_list(cdc._erased_ranges_relation(d))) }}
    {%- endif -%}
    {{ return(cdc._erasure_list()) }}
{%- endmacro %}


{% macro _erasures_relation(identifier="cdc_erasures") -%}
    {{ return(api.Relation.create(database=none, schema=target.schema, identifier=identifier, type="table")) }}
{%- endmacro %}


{#-
    The hash of an event's or a row's key: SHA-256 over the name of its source table, so that equal keys of two tables have two
    hashes, and the key, which hashes the same after its type was widened.
      columns   for each key column, the expression that holds it
-#}
{% macro _key_hash(d, columns) -%}
    {%- set parts = [cdc._literal(d.table)] -%}
    {%- for key in d.key_columns -%}
        {%- set declared = d.columns | selectattr("name", "equalto", key) | first | default(none, true) -%}
        {%- set type = cdc._table_type(declared) if declared else "bigint" -%}
        {%- if type == "timestamp" -%}
            {%- do parts.append("cast(unix_micros(" ~ columns[key] ~ ") as string)") -%}
        {%- elif type == "binary" -%}
            {%- do parts.append("hex(" ~ columns[key] ~ ")") -%}
        {%- else -%}
            {%- do parts.append("cast(" ~ cdc._widest(columns[key], type) ~ " as string)") -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return("sha2(to_json(array(" ~ (parts | join(", ")) ~ ")), 256)") }}
{%- endmacro %}


{#- The hash of the key of a table's rows. -#}
{% macro _row_key_hash(d, alias=none) -%}
    {%- set columns = {} -%}
    {%- for key in d.key_columns -%}
        {%- do columns.update({key: (alias ~ "." if alias else "") ~ cdc._quoted(key)}) -%}
    {%- endfor -%}
    {{ return(cdc._key_hash(d, columns)) }}
{%- endmacro %}


{#- The hashes of the keys that an event concerns, in `identified_events` or `all_events`: its own, and the one that it left. -#}
{% macro _event_key_hashes(d) -%}
    {%- set own, old = {}, {} -%}
    {%- for key in d.key_columns -%}
        {%- set name = "_event_id" if d.keyless else cdc._quoted(key) -%}
        {%- do own.update({key: name}) -%}
        {%- do old.update({key: name if d.keyless else "coalesce(" ~ cdc._quoted("_old_" ~ key) ~ ", " ~ name ~ ")"}) -%}
    {%- endfor -%}
    {{ return({"own": cdc._key_hash(d, own), "old": cdc._key_hash(d, old)}) }}
{%- endmacro %}


{#-
    What events are ordered by in a literal: their time, or a position of one part. None where neither is there; a struct has
    several parts.
-#}
{% macro _returns_by(d) -%}
    {%- if cdc._has_event_time(d) -%}
        {{ return("_ts") }}
    {%- elif d.sequence_by | length != 1 or modules.re.match("\\s*(named_)?struct\\s*\\(", d.sequence_by[0] | string | lower) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return("_seq") }}
{%- endmacro %}


{#- CTEs that take the events of erased keys out of `all_events`: `__cdc_is_erased` in `judged_events`. The list has a key once. -#}
{% macro _without_erased(d, erasures) -%}
    {%- if d.key_changes -%}
        {{ return(cdc._without_erased_ranges(d, erasures)) }}
    {%- endif -%}
    {%- set hashes = cdc._event_key_hashes(d) -%}
    {%- set by = cdc._returns_by(d) -%}
erased_keys as (
    select
        key_hash,
        counts_from
    from {{ erasures }}
    where table_name = {{ cdc._literal(d.table) }}
),

judged_events as (
    select
        keyed_events.* except (__cdc_key_hash, __cdc_old_key_hash),
        own_erasures.key_hash is not null or old_erasures.key_hash is not null as __cdc_is_erased
    from (
        select
            *,
            {{ hashes.own }} as __cdc_key_hash,
            {{ hashes.old }} as __cdc_old_key_hash
        from all_events
    ) as keyed_events
    {%- for alias, hash in [("own_erasures", "__cdc_key_hash"), ("old_erasures", "__cdc_old_key_hash")] %}
    left join erased_keys as {{ alias }}
        on
            keyed_events.{{ hash }} = {{ alias }}.key_hash
            and not keyed_events._op <=> 'T'
            {%- if by %}
            and ({{ alias }}.counts_from is null or keyed_events.{{ by }} < {{ alias }}.counts_from)
            {%- endif %}
    {%- endfor %}
),

{{ cdc._unerased_events() }}
{%- endmacro %}


{#- What is left of `judged_events`. -#}
{% macro _unerased_events() -%}
identified_events as (
    select * except (__cdc_is_erased)
    from judged_events
    where not __cdc_is_erased
)
{%- endmacro %}
