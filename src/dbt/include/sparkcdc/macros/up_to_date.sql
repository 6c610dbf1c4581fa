{# What a package can tell of its own nodes, so that they need not go through all that dbt does for any node.

   `is_up_to_date()`: whether a view, a snapshot or the table of a Python model stays what it is.
   `view_properties()`: the properties, names and values, that a view is created with.
   `updates_itself()`: whether `batch_update` writes the snapshot or incremental model, in place of dbt-spark's materialization.
   `batch_update()`: brings such a table up to date, and returns what came of it, as dbt is to report it.
   `first_query(compiled_code)`: the query that a model is created with, in place of the compiled one.
   `first_snapshot_done()`: goes on where a snapshot was created with a part of its rows.
   `first_build_done()`: goes on, in the same way, after dbt-spark has built an incremental model, and notes what the table came to.
   `batch_position()`: asked for before an incremental Python model reads: `checkpoint`, what the commit of its rows is to note, and
     `reads_all`, whether the model has to read all of its input again, which it finds as `dbt.reads_all`. It may hold more for
     `write_batch`. None where there is nothing to say.
   `set_batch_position(position)`: has the commit that creates the table note this checkpoint.
   `write_batch(sql, written, batch)`: runs the statement `sql`, which writes the rows of the temporary view `written` to the
     model's table, as the node's statement `main`, and notes the checkpoint. `batch` is what `batch_position` returned, and empty
     where that was none.
   By itself the adapter builds everything as dbt-spark does. #}
{% macro is_up_to_date() %}
  {{ return(adapter.dispatch('is_up_to_date', 'dbt')()) }}
{% endmacro %}


{% macro default__is_up_to_date() %}
  {{ return(false) }}
{% endmacro %}


{% macro view_properties() %}
  {{ return(adapter.dispatch('view_properties', 'dbt')()) }}
{% endmacro %}


{% macro default__view_properties() %}
  {{ return({}) }}
{% endmacro %}


{% macro updates_itself() %}
  {{ return(adapter.dispatch('updates_itself', 'dbt')()) }}
{% endmacro %}


{% macro default__updates_itself() %}
  {{ return(false) }}
{% endmacro %}


{% macro batch_update() %}
  {{ return(adapter.dispatch('batch_update', 'dbt')()) }}
{% endmacro %}


{% macro default__batch_update() %}
  {{ return('OK') }}
{% endmacro %}


{% macro first_build_done() %}
  {{ return(adapter.dispatch('first_build_done', 'dbt')()) }}
{% endmacro %}


{% macro default__first_build_done() %}{% endmacro %}


{% macro first_query(compiled_code) %}
  {{ return(adapter.dispatch('first_query', 'dbt')(compiled_code)) }}
{% endmacro %}


{% macro default__first_query(compiled_code) %}
  {{ return(compiled_code) }}
{% endmacro %}


{% macro first_snapshot_done() %}
  {{ return(adapter.dispatch('first_snapshot_done', 'dbt')()) }}
{% endmacro %}


{% macro default__first_snapshot_done() %}{% endmacro %}


{% macro batch_position() %}
  {{ return(adapter.dispatch('batch_position', 'dbt')()) }}
{% endmacro %}


{% macro default__batch_position() %}
  {{ return(none) }}
{% endmacro %}


{% macro set_batch_position(position) %}
  {{ return(adapter.dispatch('set_batch_position', 'dbt')(position)) }}
{% endmacro %}


{% macro default__set_batch_position(position) %}{% endmacro %}


{% macro write_batch(sql, written, batch) %}
  {{ return(adapter.dispatch('write_batch', 'dbt')(sql, written, batch)) }}
{% endmacro %}


{% macro default__write_batch(sql, written, batch) %}
  {% call statement('main') %}
    {{ sql }}
  {% endcall %}
{% endmacro %}


{% macro sparkcdc__update(type) %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks) }}
  {% set outcome = batch_update() %}
  {% do apply_grants(this, config.get('grants'), should_revoke(true, false)) %}
  {% do persist_docs(this, model) %}
  {{ run_hooks(post_hooks) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return(sparkcdc__keep(type, outcome)) }}
{% endmacro %}


{% macro sparkcdc__keep(type, outcome='nothing new') %}
  {% call noop_statement('main', outcome) %}-- {{ outcome }}{% endcall %}
  {{ return({'relations': [this.incorporate(type=type)]}) }}
{% endmacro %}


{# As dbt-spark's, with the view's properties. #}
{% macro sparkcdc__create_view_as(relation, sql) %}
  create or replace view {{ relation }}
  {% if config.persist_column_docs() %}
    (
      {{ get_persist_docs_column_list(model.columns, get_columns_in_query(sql)) }}
    )
  {% endif %}
  {{ comment_clause() }}
  {%- for name, value in view_properties().items() %}
  {{ 'tblproperties (' if loop.first }}'{{ name }}' = '{{ value }}'{{ ')' if loop.last else ',' }}
  {%- endfor %}
  {%- if config.get('contract').enforced %}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif %}
  as
    {{ sql }}
{% endmacro %}


{% materialization view, adapter='sparkcdc' %}
  {{ return(sparkcdc__keep('view') if is_up_to_date() else materialization_view_spark()) }}
{% endmaterialization %}


{% materialization snapshot, adapter='sparkcdc' %}
  {% if is_up_to_date() %}
    {{ return(sparkcdc__keep('table')) }}
  {% elif updates_itself() %}
    {{ return(sparkcdc__update('table')) }}
  {% endif %}
  {% set built = materialization_snapshot_spark() %}
  {% do first_snapshot_done() %}
  {{ return(built) }}
{% endmaterialization %}


{# dbt runs a Python model's code for a materialization itself, and for none that another one calls: Python models have their own
   way here. #}
{% materialization incremental, adapter='sparkcdc', supported_languages=['sql', 'python'] %}
  {% if model.language == 'sql' %}
    {% if updates_itself() %}
      {{ return(sparkcdc__update('table')) }}
    {% endif %}
    {% set built = materialization_incremental_spark() %}
    {% do first_build_done() %}
    {{ return(built) }}
  {% endif %}
  {% set existing = load_relation(this) %}
  {% set merges = existing is not none and not existing.is_view and not should_full_refresh() %}
  {% set written = make_temp_relation(this) if merges else this %}
  {% set file_format = dbt_spark_validate_get_file_format(config.get('file_format', 'delta')) %}
  {% set strategy = dbt_spark_validate_get_incremental_strategy(config.get('incremental_strategy') or 'append', file_format) %}
  {% if strategy in ['insert_overwrite', 'microbatch'] and config.get('partition_by') %}
    {% call statement() %}
      set spark.sql.sources.partitionOverwriteMode = dynamic
    {% endcall %}
  {% endif %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks) }}
  {% if merges and is_up_to_date() %}
    {% call noop_statement('main', 'nothing new') %}-- nothing new{% endcall %}
  {% else %}
    {# It refuses a model that cannot be built: nothing is dropped before. #}
    {% set batch = batch_position() or {} %}
    {% if existing is not none and not merges and not existing.is_delta %}
      {% do adapter.drop_relation(existing) %}
    {% endif %}
    {% set position = batch.get('checkpoint') %}
    {% if position is not none and not merges %}
      {% do set_batch_position(position) %}
    {% endif %}
    {% set code = compiled_code ~ ('\n\ndbtObj.reads_all = True\n' if batch.get('reads_all') else '') %}
    {% call statement('create_tmp_relation' if merges else 'main', language='python') %}
      {{ create_table_as(merges, written, code, 'python') }}
    {% endcall %}
    {% if merges %}
      {% set schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') %}
      {% do process_schema_changes(schema_change, written, existing) %}
      {% set sql = dbt_spark_get_incremental_sql(
        strategy, written, this, existing, config.get('unique_key'), config.get('incremental_predicates')
      ) %}
      {% do write_batch(sql, written, batch) %}
      {% do adapter.drop_steps() %}
    {% endif %}
  {% endif %}
  {% do apply_grants(this, config.get('grants'), should_revoke(existing, should_full_refresh())) %}
  {% do persist_docs(this, model) %}
  {{ run_hooks(post_hooks) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [this]}) }}
{% endmaterialization %}
