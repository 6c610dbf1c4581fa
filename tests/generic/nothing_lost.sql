{#- Every event that was read is applied, a duplicate, superseded or quarantined. For a model of cdc.audit rows. #}
{% test nothing_lost(model) %}

select *
from {{ model }}
where events_read <> events_applied + events_duplicate + events_superseded + events_quarantined

{% endtest %}
