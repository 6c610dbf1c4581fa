{#-
    What a table is, made once a run and never changed: SELECT builders get it and nothing else.
      relation, tombstones           the table, and the table of its tombstones
      key_columns, value_columns     lists of columns, in the order of the table
      columns                        all columns of the table, in order
      tracked                        columns whose change begins a version
      dropped                        columns of the table that are not declared any more
      renames                        names to former names
      types, event_types             name to type: of the table's columns, and of the events' where these differ
      time                           column of valid_from and valid_to
      follows                        the keys of a row that is followed through them; else empty
      ended                          for each key column, the one that holds the key which an event ended
      arrival                        the ingestion sequence, as the events have it
      events_sql, declaration        where the events come from
      node                           the model or snapshot
      lives                          whether the table has one row for each row lifetime, and no history
      rebuild                        whether everything is folded again from the events
      recognizes, by_position        whether known events may come under another identity; whether their keys are such identities
      added                          columns that were added since the identities of events first changed
      keeps_images                   whether the events of a row lifetime keep their values
      partial, truncated             whether events may leave columns unset; whether there may be truncates
      is_large                       whether scanning the table is worth compiling
-#}
{% macro _history_spec(node) -%}
    {%- set relation = cdc._relation_of(node) -%}
    {%- set exists = load_relation(relation) is not none -%}
    {%- set spec = cdc._declared_spec(node, node.compiled_code, relation) -%}
    {%- if not exists -%}
        {{ return(spec) }}
    {%- endif -%}
    {%- set types = cdc._column_types(relation) -%}
    {%- do cdc._refuse_other_format(node, relation) -%}
    {%- do cdc._refuse_old_layout(relation, types, ["_event_id", "_cdc_is_latest"]) -%}
    {%- set properties = cdc._own_properties(spec, node, types) -%}
    {%- do cdc._refuse_drift(node, spec, properties, types) -%}
    {{ return(dict(
        cdc._evolved_spec(spec, cdc._untracked(spec), properties), rebuild=should_full_refresh(), is_large=cdc._is_large(relation)
    )) }}
{%- endmacro %}


{#-
    What a table of events says of itself. One that somebody created in its place says nothing, and is made to say it again. Its
    events have identities of some declaration, so that each is recognized by what it says, and NULL in any column may be a value
    not read yet. Its creation carries a checkpoint where the session had one of a build's creation, which is void from here on.
-#}
{% macro _own_properties(spec, node, types) -%}
    {%- set properties = cdc._table_properties(spec.relation) -%}
    {%- if "cdc.keys" in properties -%}
        {{ return(properties) }}
    {%- endif -%}
    {%- do cdc._refuse_foreign_mask(spec) -%}
    {%- set traits = dict(cdc._history_properties(spec), **cdc._format_properties(node)) -%}
    {%- if node.resource_type == "snapshot" -%}{%- do traits.update({"cdc.build": invocation_id}) -%}{%- endif -%}
    {%- if cdc._identity(spec) -%}
        {%- do traits.update({"cdc.identity": "unknown", "cdc.added": types.keys() | map("lower") | join("\n")}) -%}
    {%- endif -%}
    {#- First, for a table that has these properties counts as one of ours. -#}
    {%- do cdc._void_checkpoint(spec.relation) -%}
    {%- do run_query("alter table " ~ spec.relation ~ " set " ~ cdc._tblproperties(traits)) -%}
    {{ return(dict(properties, **traits)) }}
{%- endmacro %}


{#-
    The final table of a source without a history: a row lifetime is one version, for without tracked columns only births begin one.
-#}
{% macro _lives_spec(node) -%}
    {%- set relation = cdc._relation_of(node) -%}
    {%- set events_sql = "select * from " ~ graph.nodes[node.depends_on.nodes[0]].relation_name -%}
    {%- set spec = dict(cdc._declared_spec(node, events_sql, relation), tracked=[], lives=true) -%}
    {%- do cdc._refuse_other_format(node, relation) -%}
    {%- set columns = cdc._column_types(relation) -%}
    {%- do cdc._refuse_other_source(node, columns, true) -%}
    {%- if "_event_id" not in columns -%}
        {%- do run_query("alter table " ~ relation ~ " add columns (_event_id " ~ spec.types["_event_id"] ~ ")") -%}
    {%- endif -%}
    {%- set event = cdc._struct_fields(cdc._item_type(columns["_events"])) -%}
    {%- set spec = dict(spec, keeps_images=spec.keeps_images or "_image" in event) -%}
    {%- set properties = cdc._own_properties(spec, node, columns) -%}
    {%- do cdc._refuse_drift(node, spec, properties, columns) -%}
    {%- set images = spec.value_columns if spec.keeps_images else [] -%}
    {{ return(dict(cdc._evolved_spec(spec, images, properties), is_large=cdc._is_large(relation))) }}
{%- endmacro %}


{#- The same as the declaration alone tells it, for the first build's SELECT. -#}
{% macro _lives_spec_of_declaration(node, events) -%}
    {%- set d = cdc._upstream_declaration(node) -%}
    {%- set types = {} -%}
    {%- for column in d.columns -%}{%- do types.update({column.name: cdc._table_type(column)}) -%}{%- endfor -%}
    {%- for name in ["_op", "_seq", "_event_id", "_unset", "_arrived"] + (["_ts"] if cdc._has_event_time(d) else [])
        + (["_row_id"] if d.keyless else []) -%}
        {%- do types.update({name: ""}) -%}
    {%- endfor -%}
    {%- for key in d.key_columns if not d.keyless and not d.traits.columns -%}
        {%- do types.update({"_old_" ~ key: ""}) -%}
    {%- endfor -%}
    {#- A view needs no `unique_key`. -#}
    {%- set keyed = dict(node, config=dict(node.config, unique_key=node.config.unique_key or d.key_columns)) -%}
    {{ return(dict(
        cdc._spec_of_types(keyed, types, "select * from " ~ events, cdc._relation_of(node)), tracked=[], lives=true, node=node
    )) }}
{%- endmacro %}


{#- What a final table without a history is, before it is made. -#}
{% macro _first_lives_spec(node) -%}
    {%- set above = graph.nodes[node.depends_on.nodes[0]] -%}
    {%- set target = cdc._relation_of(node) -%}
    {%- do cdc._refuse_second_home(node, target) -%}
    {%- set spec = dict(cdc._declared_spec(node, "select * from " ~ above.relation_name, target), lives=true) -%}
    {%- do cdc._refuse_remasking(spec) -%}
    {{ return(spec) }}
{%- endmacro %}


{#- What the events and their declaration say of a table. -#}
{% macro _declared_spec(node, events_sql, relation) -%}
    {{ return(cdc._spec_of_types(node, cdc._column_types(events_sql), events_sql, relation)) }}
{%- endmacro %}


{% macro _spec_of_types(node, types, events_sql, relation) -%}
    {%- set keys = cdc._as_list(node.config.unique_key) -%}
    {%- set labels = ["_entity_id", "_ended_entity_id", "_former_entity_ids", "_segment_id", "_left_segment_id",
        "_ended_segment_id", "_resolved"] -%}
    {%- set canonical = ["_op", "_seq", "_ts", "_event_id", "_unset", "_arrived"] + labels -%}
    {%- for key in keys -%}
        {%- do canonical.append("_old_" ~ key) -%}
    {%- endfor -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- set renames = declaration.renames if declaration else {} -%}
    {%- set values = types.keys() | reject("in", keys + canonical + renames.values() | sum(start=[])) | list -%}
    {%- set tracked = declaration.track_history_columns if declaration else [] -%}

    {%- set problems = cdc._history_problems(node) if node.resource_type == "snapshot" else [] -%}
    {%- set there = types | map("lower") | list -%}
    {%- set missing = [] -%}
    {%- for column in (declaration.columns if declaration and "_op" in types else [])
        if column.name | lower not in there -%}
        {%- do missing.append(column.name) -%}
        {%- do problems.append(node.name ~ ": its relation has no column `" ~ column.name ~ "`, which " ~ declaration.table
            ~ " declares. It was built from an older declaration, and values of that column would be missed. Build it again first,"
            ~ " as `dbt build --select +" ~ node.name ~ "` does.") -%}
    {%- endfor -%}
    {%- for name in ["_op", "_seq", "_event_id", "_unset"] if name not in types -%}
        {%- do problems.append(node.name ~ ": its relation has no column `" ~ name
            ~ "`. Snapshot a model whose body is `cdc.events(source(...))`.") -%}
    {%- endfor -%}
    {%- if not keys -%}
        {%- do problems.append(node.name ~ ": no unique_key. Name the columns of the key in the snapshot's config.") -%}
    {%- endif -%}
    {%- for key in keys if key not in types and key not in missing -%}
        {%- do problems.append(node.name ~ ": unique_key column `" ~ key ~ "` is not a column of its relation ("
            ~ (values | join(", ")) ~ "). Correct the snapshot's unique_key.") -%}
    {%- endfor -%}
    {%- if declaration and keys | sort != declaration.key_columns | sort -%}
        {%- do problems.append(node.name ~ ": unique_key " ~ (keys | join(", ")) ~ " is not the declared key of "
            ~ declaration.table ~ ", " ~ (declaration.key_columns | join(", ")) ~ ". Make both the same.") -%}
    {%- endif -%}
    {%- set follows = "_entity_id" in types -%}
    {%- if declaration and declaration.key_changes != follows -%}
        {%- do problems.append(node.name ~ ": " ~ declaration.table ~ " declares `key_changes: "
            ~ declaration.key_changes | string | lower ~ "`, and the relation has " ~ ("an" if follows else "no")
            ~ " `_entity_id`. Where keys change, snapshot a Python model whose body is `resolve_keys(dbt, session, dbt.ref(...))`,"
            ~ " else the staging model itself.") -%}
    {%- endif -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
    {%- endif -%}

    {#- A row that is followed through its keys is folded by its entity; the keys are values of it like others. -#}
    {%- if follows -%}
        {%- set ended = {"_entity_id": "_ended_entity_id"} -%}
    {%- elif declaration and declaration.traits.columns -%}
        {%- set ended = {} -%}
    {%- else -%}
        {%- set ended = cdc._old_keys(keys, types) -%}
    {%- endif -%}
    {{ return({
        "relation": relation,
        "tombstones": cdc._tombstones_of(relation),
        "lives": false,
        "rebuild": false,
        "recognizes": false,
        "by_position": false,
        "added": [],
        "is_large": false,
        "node": node,
        "partial": cdc._may_be_partial(declaration),
        "keeps_images": cdc._may_be_partial(declaration),
        "truncated": true,
        "key_columns": ["_entity_id"] if follows else keys,
        "value_columns": keys + values if follows else values,
        "dropped": [],
        "renames": renames,
        "tracked": keys + (tracked or values) if follows else tracked or values,
        "types": types,
        "event_types": none,
        "time": "_ts" if "_ts" in types else "_seq",
        "follows": keys if follows else [],
        "ended": ended,
        "arrival": "_resolved" if follows else "_arrived",
        "events_sql": events_sql,
        "declaration": declaration,
    }) }}
{%- endmacro %}


{#- For each key column, the one that holds the key which an event ended; none where no event ends another key's row. -#}
{% macro _old_keys(keys, types) -%}
    {%- set old = {} -%}
    {%- for key in keys if "_old_" ~ key in types -%}
        {%- do old.update({key: "_old_" ~ key}) -%}
    {%- endfor -%}
    {{ return(old) }}
{%- endmacro %}


{#-
    Whether an event may come without values for some columns: never where events are the rows of a typed table, unless rows were
    amended.
-#}
{% macro _may_be_partial(d) -%}
    {{ return(not d or not d.traits.columns or (d.ignore_null_updates or d.changed_columns) and true
        or cdc._amendments_of(d) is not none) }}
{%- endmacro %}


{#- Whether Spark compiles what scans a table: interpreted, a scan of many rows takes longer than planning it. -#}
{% macro _is_large(relation) -%}
    {{ return(adapter.dispatch("is_large", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__is_large(relation) -%}
    {{ return(true) }}
{%- endmacro %}


{% macro sparkcdc__is_large(relation) -%}
    {%- set size = adapter.table_bytes(relation | string) -%}
    {{ return(size is none or size > 16 * 1024 * 1024) }}
{%- endmacro %}
