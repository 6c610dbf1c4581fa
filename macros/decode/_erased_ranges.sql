{#-
    The erasure list of a table with `key_changes`: at which positions an erased row had which key. A key may have belonged to
    other rows before and after, whose events stay. One table for each declared source table; none where nothing was ever erased
    of it.
      key_hash      see `_key_hash`
      is_end        whether the range is one of ends (deletes, and moves away from the key) or of all other events at the key.
                    They differ where a row arrives at a key before the other one has left it, as in a swap
      lower_bound   after what the row had the key: a position, and 1 for right after it, -1 for right before it; NULL for ever
      upper_bound   before what it had the key; NULL for ever
      entity_id     the row, as the resolver named it; NULL for a key of which no row was known
      erasure_id    the erasure that listed the range
      erased_at     when
      counts_from   from where on events count again, see `_erasure_list`
      is_done       whether its erasure has come to its end
-#}
{% macro _erased_ranges_relation(d) -%}
    {{ return(cdc._relation_beside("cdc_erased_ranges", d)) }}
{%- endmacro %}


{#- The CTEs of `_without_erased` for a table with `key_changes`: both ends of a move are looked up. -#}
{% macro _without_erased_ranges(d, ranges) -%}
    {%- set hashes = cdc._event_key_hashes(d) -%}
    {%- set by = cdc._returns_by(d) -%}
erased_keys as (
    select
        key_hash,
        is_end,
        collect_list(struct(lower_bound, upper_bound, counts_from)) as __cdc_ranges
    from {{ ranges }}
    group by key_hash, is_end
),

keyed_events as (
    select
        *,
        {{ hashes.own }} as __cdc_key_hash,
        {{ hashes.old }} as __cdc_old_key_hash
    from all_events
),

ranged_events as (
    select
        keyed_events.* except (__cdc_old_key_hash),
        {{ cdc._is_in_some_range("own_erasures", "keyed_events", by) }} as __cdc_is_own_erased,
        {{ cdc._is_in_some_range("old_erasures", "keyed_events", by) }} as __cdc_is_old_erased
    from keyed_events
    left join erased_keys as own_erasures
        on
            keyed_events.__cdc_key_hash = own_erasures.key_hash
            and own_erasures.is_end = (keyed_events._op = 'D')
            and keyed_events._op in ('I', 'U', 'D')
    left join erased_keys as old_erasures
        on
            keyed_events.__cdc_old_key_hash = old_erasures.key_hash
            and old_erasures.is_end
            and keyed_events._op in ('I', 'U')
            and keyed_events.__cdc_old_key_hash <> keyed_events.__cdc_key_hash
),

judged_events as (
    select
        * except (__cdc_key_hash, __cdc_is_own_erased, __cdc_is_old_erased),
        __cdc_is_own_erased or __cdc_is_old_erased as __cdc_is_erased
    from ranged_events
),

{{ cdc._unerased_events() }}
{%- endmacro %}


{#- Whether an event is in one of a key's ranges. One without a position could be in any of them. -#}
{% macro _is_in_some_range(erasures, events, by=none) -%}
    {%- set place = "named_struct('position', " ~ events ~ "._seq, 'side', 0)" -%}
    {%- set counts_not = " and (erased.counts_from is null or " ~ events ~ "." ~ by ~ " < erased.counts_from)" if by else "" -%}
    {%- set is_within = "(erased.lower_bound is null or " ~ place ~ " > erased.lower_bound) and (erased.upper_bound is null or "
        ~ place ~ " < erased.upper_bound)" -%}
    {{ return("coalesce(exists(" ~ erasures ~ ".__cdc_ranges, erased -> (" ~ events ~ "._seq is null or (" ~ is_within ~ "))"
        ~ counts_not ~ "), false)") }}
{%- endmacro %}
