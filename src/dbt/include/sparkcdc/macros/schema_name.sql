{# Iceberg tables are in a catalog of their own, `iceberg_catalog` of the profile: it stands before their schema. #}
{% macro sparkcdc__generate_schema_name(custom_schema_name, node) -%}
  {%- set schema = default__generate_schema_name(custom_schema_name, node) | trim -%}
  {%- set catalog = target.get('iceberg_catalog') -%}
  {%- set is_there = node is not none and node.config.get('file_format') == 'iceberg'
      and node.config.get('materialized') in ['snapshot', 'incremental', 'table', 'seed'] -%}
  {{ return(catalog ~ '.' ~ schema if catalog and is_there and '.' not in schema else schema) }}
{%- endmacro %}
