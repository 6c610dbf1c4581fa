{#-
    CTEs of what the resolver's table knows: `known_events`, with the hashes of their keys; `key_marks`, what they did at each
    key; and `truncate_marks`.
      place   puts the marks of a key in order: position, 0 for events, 1 for ends and 2 for truncates, identity
-#}
{% macro _key_marks(d, resolver) -%}
    {%- set hashes = cdc._event_key_hashes(d) -%}
known_events as (
    select
        *,
        {{ hashes.own }} as __cdc_key_hash,
        {{ hashes.old }} as __cdc_old_key_hash
    from {{ resolver }}
    where _op <> 'T'
),

key_marks as (
    select
        _entity_id,
        _segment_id as __cdc_segment,
        __cdc_key_hash,
        _left_segment_id is not null as __cdc_is_arrival,
        struct(_seq as position, if(_op = 'D', 1, 0) as kind, _event_id as event_id) as place
    from known_events
    union all
    select
        _entity_id,
        _left_segment_id as __cdc_segment,
        __cdc_old_key_hash as __cdc_key_hash,
        false as __cdc_is_arrival,
        struct(_seq as position, 1 as kind, _event_id as event_id) as place
    from known_events
    where _left_segment_id is not null
),

truncate_marks as (
    select struct(_seq as position, 2 as kind, _event_id as event_id) as place
    from {{ resolver }}
    where _op = 'T'
)
{%- endmacro %}


{#- A bound right before (-1) or right after (1) the position of a place; NULL where there is none. -#}
{% macro _bound(place, side) -%}
    {{ return("if(" ~ place ~ " is null, null, named_struct('position', " ~ place ~ ".position, 'side', " ~ side ~ "))") }}
{%- endmacro %}


{#-
    The ranges of erased rows: two for each segment, each lifetime of a row at a key. The range of its events goes from the end
    before it to its own end, and no further than where the next row arrives. Where it arrived itself before the other row had
    left, it begins there. Ends come later in both cases: that of a row which has to leave is the first one after the end before
    it.
      entities   the rows, as the resolver names them
-#}
{% macro _entity_ranges(d, resolver, entities) -%}
with {{ cdc._key_marks(d, resolver) }},

erased_segments as (
    select
        key_marks.__cdc_key_hash,
        key_marks.__cdc_segment,
        any_value(key_marks._entity_id) as _entity_id,
        min(key_marks.place) as first_place,
        max(key_marks.place) filter (where key_marks.place.kind = 1) as end_place
    from key_marks
    left semi join {{ entities }} as entities on key_marks._entity_id = entities._entity_id
    group by key_marks.__cdc_key_hash, key_marks.__cdc_segment
),

other_marks as (
    select
        erased_segments.__cdc_key_hash,
        erased_segments.__cdc_segment,
        key_marks.place
    from erased_segments
    inner join key_marks
        on
            erased_segments.__cdc_key_hash = key_marks.__cdc_key_hash
            and erased_segments.__cdc_segment <> key_marks.__cdc_segment
    union all
    select
        erased_segments.__cdc_key_hash,
        erased_segments.__cdc_segment,
        truncate_marks.place
    from erased_segments
    cross join truncate_marks
),

neighbours as (
    select
        erased_segments.__cdc_key_hash,
        erased_segments.__cdc_segment,
        erased_segments._entity_id,
        erased_segments.first_place,
        erased_segments.end_place,
        max(other_marks.place) filter (where other_marks.place < erased_segments.first_place) as place_before,
        min(other_marks.place)
            filter (where other_marks.place.kind = 0 and other_marks.place > erased_segments.first_place) as next_arrival,
        min(other_marks.place)
            filter (where other_marks.place.kind = 2 and other_marks.place > erased_segments.first_place) as next_truncate
    from erased_segments
    left join other_marks using (__cdc_key_hash, __cdc_segment)
    group by all
),

bounded_segments as (
    select
        *,
        if(
            place_before.kind = 0,
            {{ cdc._bound("first_place", -1) }},
            {{ cdc._bound("place_before", 1) }}
        ) as first_bound,
        {{ cdc._bound("end_place", 1) }} as end_bound,
        array_min(array({{ cdc._bound("next_arrival", -1) }}, {{ cdc._bound("next_truncate", 1) }})) as other_bound
    from neighbours
),

last_ends as (
    select
        bounded_segments.__cdc_key_hash,
        bounded_segments.__cdc_segment,
        max(other_marks.place) as last_end
    from bounded_segments
    inner join other_marks
        on
            bounded_segments.__cdc_key_hash = other_marks.__cdc_key_hash
            and bounded_segments.__cdc_segment = other_marks.__cdc_segment
            and other_marks.place.kind > 0
            and case
                when bounded_segments.end_place is not null then other_marks.place < bounded_segments.end_place
                when bounded_segments.other_bound is not null
                    then named_struct('position', other_marks.place.position, 'side', 0) < bounded_segments.other_bound
                else true
            end
    group by bounded_segments.__cdc_key_hash, bounded_segments.__cdc_segment
)

select
    __cdc_key_hash as key_hash,
    false as is_end,
    first_bound as lower_bound,
    array_min(array(end_bound, other_bound)) as upper_bound,
    _entity_id as entity_id
from bounded_segments
union all
select
    bounded_segments.__cdc_key_hash as key_hash,
    true as is_end,
    {{ cdc._bound("last_ends.last_end", 1) }} as lower_bound,
    coalesce(bounded_segments.end_bound, bounded_segments.other_bound) as upper_bound,
    bounded_segments._entity_id as entity_id
from bounded_segments
left join last_ends using (__cdc_key_hash, __cdc_segment)
{%- endmacro %}


{#- The ranges of keys of which no row is known: for ever. -#}
{% macro _unknown_key_ranges(resolver, given) -%}
    {%- set type = cdc._table_types(resolver)["_seq"] -%}
    {%- set bound = "cast(null as struct<position: " ~ type ~ ", side: int>)" -%}
select
    key_hash,
    explode(array(false, true)) as is_end,
    {{ bound }} as lower_bound,
    {{ bound }} as upper_bound,
    cast(null as bigint) as entity_id
from {{ given }}
where not __cdc_is_known
{%- endmacro %}


{#-
    Events that move an erased row on to a key which is not on the list: they arrived later, and the rows that they moved are
    known by no other name than what the events after them say. Each with
      entity_id     the row that the resolver took those for; NULL where there are none
      is_free       whether no other row had the key then
      upper_bound   before what the row has the new key, where no event follows there
-#}
{% macro _late_moves(d, resolver, ranges) -%}
with {{ cdc._decoded_events(dict(d, sees_erased=false, erased_by=ranges), d.relation) }},

late_moves as (
    select
        __cdc_key_hash,
        struct(_seq as position, 0 as kind, _event_id as event_id) as place
    from ranged_events
    where __cdc_is_old_erased and not __cdc_is_own_erased and _reason is null
),

{{ cdc._key_marks(d, resolver) }},

marks_at_keys as (
    select
        late_moves.__cdc_key_hash,
        late_moves.place as __cdc_move,
        key_marks._entity_id,
        key_marks.__cdc_is_arrival,
        key_marks.place
    from late_moves
    inner join key_marks using (__cdc_key_hash)
    union all
    select
        late_moves.__cdc_key_hash,
        late_moves.place as __cdc_move,
        null as _entity_id,
        true as __cdc_is_arrival,
        truncate_marks.place
    from late_moves
    cross join truncate_marks
),

surrounded_moves as (
    select
        late_moves.__cdc_key_hash,
        late_moves.place,
        max(marks_at_keys.place) filter (where marks_at_keys.place < late_moves.place) as place_before,
        min(struct(marks_at_keys.place, marks_at_keys._entity_id, marks_at_keys.__cdc_is_arrival))
            filter (where marks_at_keys.place > late_moves.place) as next_mark
    from late_moves
    left join marks_at_keys
        on late_moves.__cdc_key_hash = marks_at_keys.__cdc_key_hash and late_moves.place = marks_at_keys.__cdc_move
    group by late_moves.__cdc_key_hash, late_moves.place
)

select
    __cdc_key_hash as key_hash,
    coalesce(place_before.kind, 1) > 0 as is_free,
    if(next_mark.__cdc_is_arrival, null, next_mark._entity_id) as entity_id,
    {{ cdc._bound("place", -1) }} as lower_bound,
    case
        when next_mark.place.kind = 2 then {{ cdc._bound("next_mark.place", 1) }}
        when next_mark.__cdc_is_arrival then {{ cdc._bound("next_mark.place", -1) }}
    end as upper_bound
from surrounded_moves
{%- endmacro %}
