{#- The versions of a key follow one another: each ends before or where the next begins, only the last is open; all have a key. #}
{% test no_overlap(model, unique_key) %}

{%- set columns = cdc._as_list(unique_key) %}
{%- set keys = cdc._column_list(columns) %}

with followed_versions as (
    select
        {{ keys }},
        _seq,
        _seq_end,
        lead(_seq) over (partition by {{ keys }} order by _seq, _seq_end nulls last) as _next_seq
    from {{ model }}
)

select *
from followed_versions
where
    _seq_end < _seq
    or _seq_end > _next_seq
    or (_seq_end is null and _next_seq is not null)
    {%- for column in columns %}
    or {{ cdc._quoted(column) }} is null
    {%- endfor %}

{% endtest %}
