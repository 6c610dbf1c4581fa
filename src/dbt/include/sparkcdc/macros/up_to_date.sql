{# A view or snapshot that is what it was already ends before dbt makes views, asks for columns and merges.
   Which ones these are a package tells: by itself the adapter builds all of them. Incremental models have no such
   way round: dbt takes a Python model's code from no materialization that calls another one. #}
{% macro is_up_to_date() %}
  {{ return(adapter.dispatch('is_up_to_date', 'dbt')()) }}
{% endmacro %}


{% macro default__is_up_to_date() %}
  {{ return(false) }}
{% endmacro %}


{% macro sparkcdc__keep(type) %}
  {% call noop_statement('main', 'nothing new') %}-- nothing new{% endcall %}
  {{ return({'relations': [this.incorporate(type=type)]}) }}
{% endmacro %}


{% materialization view, adapter='sparkcdc' %}
  {{ return(sparkcdc__keep('view') if is_up_to_date() else materialization_view_spark()) }}
{% endmaterialization %}


{% materialization snapshot, adapter='sparkcdc' %}
  {{ return(sparkcdc__keep('table') if is_up_to_date() else materialization_snapshot_spark()) }}
{% endmaterialization %}
