{# A table as SQL models get it, all clauses included; a Python model's result is its query. #}
{%- macro sparkcdc__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- if language == 'python' -%}
    {{- sparkcdc__py_write_table(temporary, relation, compiled_code) -}}
  {%- else -%}
    {{ spark__create_table_as(temporary, relation, compiled_code, language) }}
  {%- endif -%}
{%- endmacro -%}


{%- macro sparkcdc__py_write_table(temporary, relation, compiled_code) -%}
  {%- set file_format = config.get('file_format', 'delta') -%}
  {%- set statements = [] -%}
  {%- if temporary -%}
    {%- do statements.append(
      'create or replace table ' ~ relation ~ ' using delta as select * from __dbt_python_result'
    ) -%}
  {%- else -%}
    {%- do statements.append(
      sparkcdc__create_table_head(relation, file_format)
      ~ ' as select * from __dbt_python_result'
    ) -%}
  {%- endif %}
{{ compiled_code }}

# Written by dbt: the model's result becomes {{ relation }}.
dbt_write(
    model(dbtObj(spark.table), spark),
    {%- for statement in statements %}
    {{ statement | tojson }},
    {%- endfor %}
)
{%- endmacro -%}


{# `create table` up to its columns or query. #}
{%- macro sparkcdc__create_table_head(relation, file_format) -%}
  {%- set verb = 'create or replace table' if file_format in ['delta', 'iceberg'] else 'create table' -%}
  {{ verb }} {{ relation }} using {{ file_format }}
  {{- options_clause() }}
  {{- tblproperties_clause() }}
  {{- partition_cols(label='partitioned by') }}
  {{- clustered_cols(label='clustered by') }}
  {{- location_clause() }}
  {{- comment_clause() }}
{%- endmacro -%}
