{#- No key has more than one current row, and no current row is without a key. #}
{% test one_current_row(model, unique_key, open_when=none) %}

{%- set keys = cdc._as_list(unique_key) %}

select
    {{ cdc._column_list(keys) }},
    count(*) as current_rows
from {{ model }}
{%- if open_when %}
where {{ open_when }}
{%- endif %}
group by {{ cdc._column_list(keys) }}
having
    count(*) > 1
    {%- for key in keys %}
    or {{ cdc._quoted(key) }} is null
    {%- endfor %}

{% endtest %}
