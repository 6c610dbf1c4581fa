{#-
    The change data feed of a Delta table, as table_changes() gives it. https://docs.delta.io/latest/delta-change-data-feed.html

    The kinds of a change are Delta's own, or those of Flink, as `cdc.changelog` writes them: `operation` names their column.

    Pre-images are left out, but for those of keys that an update left: no other row says that they are gone. Within a version
    deletes come first, so that a row that is deleted and inserted again is there.
-#}
{% macro _decode_delta_cdf(d) -%}
    {%- set keys = [] -%}
    {%- for key in d.key_columns if not d.keyless -%}{%- do keys.append(cdc._raw_column(d, key)) -%}{%- endfor -%}
    {%- set kind = d.operation or "_change_type" -%}
    {%- set left_key = "false" if d.keyless else "__cdc_images_after = 0" %}
with changed_rows as (
    select
        *
        {%- if not d.keyless %},
        count_if({{ kind }} not in ('update_preimage', '-U')) over (
            partition by _commit_version, {{ keys | join(", ") }}
        ) as __cdc_images_after
        {%- endif %}
    from raw_events
)

select
    *,
    case
        when {{ kind }} in ('insert', '+I') then 'I'
        when {{ kind }} in ('update_postimage', '+U') then 'U'
        when {{ kind }} in ('delete', '-D') then 'D'
        when {{ kind }} in ('update_preimage', '-U') then if({{ left_key }}, 'D', 'M')
    end as __cdc_operation,
    {{ cdc._sequence(d, "case when _commit_version is not null then struct(cast(_commit_version as bigint) as version, "
        ~ "if(" ~ kind ~ " in ('delete', 'update_preimage', '-D', '-U'), 0, 1) as image) end") }} as __cdc_seq,
    {%- if cdc._has_event_time(d) %}
    {{ cdc._event_time(d) or "cast(_commit_timestamp as timestamp)" }} as __cdc_ts,
    {%- endif %}
    case
        when {{ kind }} is null then 'no operation'
        when {{ kind }} not in ('insert', 'update_postimage', 'delete', 'update_preimage', '+I', '+U', '-D', '-U')
            then concat('unknown operation ', {{ kind }})
    end as __cdc_problem
from changed_rows
{%- endmacro %}
