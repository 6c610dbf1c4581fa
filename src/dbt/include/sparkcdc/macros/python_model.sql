{# A Python model's result becomes a table through the same clauses as a SQL model's query. #}
{%- macro sparkcdc__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- if language == 'python' -%}
    {{- sparkcdc__py_write_table(temporary, relation, compiled_code) -}}
  {%- else -%}
    {%- set query = compiled_code if temporary else first_query(compiled_code) -%}
    {%- if config.get('file_format') == 'iceberg' -%}
      {%- set query = adapter.planned_apart(query) -%}
    {%- endif -%}
    {{ spark__create_table_as(temporary, relation, query, language) }}
  {%- endif -%}
{%- endmacro -%}


{# The adapter brings `dbt_show`, which shows the result to later statements as a temporary view, and `dbt_write`, which shows it to
   the one statement. The line break before the code keeps the indentation of what calls this macro away from it. #}
{%- macro sparkcdc__py_write_table(temporary, relation, compiled_code) -%}
{{ compiled_code }}

# Written by dbt: what model() returns becomes {{ relation }}.
{% if temporary -%}
dbt_show(model(dbtObj(spark.table), spark), {{ relation.identifier | tojson }})
{%- else -%}
{%- set view = (relation.schema ~ '__' ~ relation.identifier ~ '__result') | replace('.', '_') -%}
{%- set statement -%}
  {{ sparkcdc__create_table_head(relation, config.get('file_format', 'delta')) }} as select * from `{{ view }}`
{%- endset -%}
dbt_write(
    model(dbtObj(spark.table), spark),
    {{ view | tojson }},
    {{ statement | tojson }},
)
{%- endif %}
{%- endmacro -%}


{# `create table` up to its query. #}
{%- macro sparkcdc__create_table_head(relation, file_format) -%}
  {%- set replace = 'or replace ' if file_format in ['delta', 'iceberg'] else '' -%}
  create {{ replace }}table {{ relation }} using {{ file_format }}
  {{ options_clause() }}
  {{ tblproperties_clause() }}
  {{ partition_cols(label='partitioned by') }}
  {{ clustered_cols(label='clustered by') }}
  {{ location_clause() }}
  {{ comment_clause() }}
{%- endmacro -%}
