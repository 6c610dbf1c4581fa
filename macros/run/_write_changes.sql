{#-
    The one place that writes changes to a table, and decides how. In the order of what they cost:
      append         where no known row is touched
      replace where  where the changed rows can be listed: the commit that MERGE makes, without its join. Iceberg replaces whole
                     files only in this way
      merge          everything else
    The changes hold for the version of the table that they were computed from. Returns whether they were written; false where
    somebody wrote first, so that they have to be computed again.
      write.changes      the step that holds them
      write.version      the version of the table that they were computed from
      write.columns      columns of the table, in order
      write.new_rows     condition on the changes: rows to write
      write.touched      how many known rows are replaced or deleted
      write.is_touched   condition on the table that is true of exactly these rows; none where they cannot be listed
      write.merge        the MERGE statement
      write.position     the checkpoint
      write.few          whether the changes are few
-#}
{% macro _write_changes(spec, write) -%}
    {%- set position = dict(write.position, base=write.version) -%}
    {{ return(adapter.dispatch("write_changes", "cdc")(spec, dict(write, position=position))) }}
{%- endmacro %}


{#- The portable way: one MERGE, and a look before and after it at who else wrote. -#}
{% macro default__write_changes(spec, write) -%}
    {%- if cdc._writes_since(spec.relation, write.version) -%}
        {{ return(false) }}
    {%- endif -%}
    {%- do cdc._commit_with_checkpoint(spec.relation, write.position, "MERGE", write.merge) -%}
    {{ return(cdc._writes_since(spec.relation, write.version) | length <= 1) }}
{%- endmacro %}


{% macro sparkcdc__write_changes(spec, write) -%}
    {%- set columns = cdc._column_list(write.columns) -%}
    {%- set rows = "select " ~ columns ~ " from " ~ write.changes.relation ~ " where " ~ write.new_rows -%}
    {%- if not write.touched -%}
        {%- set sql = "insert into " ~ spec.relation ~ " " ~ rows -%}
    {%- elif write.is_touched and not cdc._is_iceberg(spec.relation) -%}
        {%- set sql = "insert into " ~ spec.relation ~ " replace where " ~ write.is_touched ~ " " ~ rows -%}
    {%- else -%}
        {%- set sql = write.merge -%}
    {%- endif -%}
    {{ return(adapter.write_changes(
        spec.relation | string, sql, write.version, cdc._checkpoint_text(spec.relation, write.position),
        write.few and not (write.touched and spec.is_large), cdc._maintenance()
    )) }}
{%- endmacro %}
