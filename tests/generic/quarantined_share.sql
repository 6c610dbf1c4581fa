{#-
    Not too many of the events of a table are in the quarantine. For a source table that is declared, or a history or final table
    of one. It decodes the raw table once more; with `newest` only the events whose `arrival` is that close to the highest one.
#}
{% test quarantined_share(model, max_share=0.1, newest=none) %}

{%- if execute %}
{%- set node = cdc._node_of(model) %}
{%- set d = cdc._upstream_declaration(node) if node else cdc._declaration(model) %}
{%- if not d %}
    {%- do exceptions.raise_compiler_error("cdc: quarantined_share on " ~ model ~ ": no declared source table is behind it. Put the test on"
        ~ " a source table with `meta.cdc`, or on its history or final table.") %}
{%- elif newest is not none and not d.arrival %}
    {%- do exceptions.raise_compiler_error("cdc: quarantined_share on " ~ model ~ " has `newest`, and " ~ d.table
        ~ " declares no `arrival`. Remove `newest`, or declare `arrival`.") %}
{%- endif %}
with {{ cdc._decoded_events(d, d.relation) }},

event_counts as (
    select
        count(*) as events_read,
        count_if(_reason is not null) as events_quarantined
    from identified_events
    {%- if newest is not none %}
    where _arrived > (
        select max(cast({{ d.arrival }} as bigint)) - {{ newest }}
        from {{ d.relation }}
    )
    {%- endif %}
)

select
    events_read,
    events_quarantined
from event_counts
where events_quarantined > {{ max_share }} * events_read
{%- else %}
select 1 as events_read
{%- endif %}

{% endtest %}
