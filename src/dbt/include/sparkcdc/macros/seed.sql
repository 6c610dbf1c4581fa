{# One statement makes and fills a seed, so that readers never see it empty; only a seed without
   rows has no such statement and is made here. #}
{% macro sparkcdc__create_csv_table(model, agate_table) %}
  {% if agate_table.rows | length > 0 %}
    {{ return('') }}
  {% endif %}
  {% set sql = sparkcdc__seed_table(model, agate_table, none) %}
  {% do run_query(sql) %}
  {{ return(sql) }}
{% endmacro %}


{% macro sparkcdc__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
  {% if old_relation and not (old_relation.is_delta and config.get('file_format') == 'delta') %}
    {% do adapter.drop_relation(old_relation) %}
  {% endif %}
  {{ return(create_csv_table(model, agate_table)) }}
{% endmacro %}


{% macro sparkcdc__load_csv_rows(model, agate_table) %}
  {% set sql = sparkcdc__seed_table(model, agate_table, adapter.make_seed_view(agate_table)) %}
  {% do run_query(sql) %}
  {{ return(sql) }}
{% endmacro %}


{% macro sparkcdc__seed_table(model, agate_table, view) %}
  {% set types = model['config'].get('column_types', {}) %}
  {% set columns = [] %}
  {% for name in agate_table.column_names %}
    {% set type = types.get(name, adapter.convert_type(agate_table, loop.index0)) %}
    {% set column = adapter.quote(name) %}
    {% do columns.append(
      column ~ ' ' ~ type if view is none
      else 'cast(' ~ column ~ ' as ' ~ type ~ ') as ' ~ column
    ) %}
  {% endfor %}
  {% set body -%}
    {{ file_format_clause() }}
    {{ tblproperties_clause() }}
    {{ partition_cols(label='partitioned by') }}
    {{ clustered_cols(label='clustered by') }}
    {{ location_clause() }}
    {{ comment_clause() }}
  {%- endset %}
  {% set verb = 'create or replace table' if config.get('file_format') == 'delta' else 'create table' %}
  {% if view is none %}
    {{ return(verb ~ ' ' ~ this ~ ' (' ~ columns | join(', ') ~ ') ' ~ body) }}
  {% endif %}
  {{ return(verb ~ ' ' ~ this ~ ' ' ~ body ~ ' as select ' ~ columns | join(', ') ~ ' from ' ~ view) }}
{% endmacro %}
