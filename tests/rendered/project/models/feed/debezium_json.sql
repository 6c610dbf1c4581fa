{{ cdc.debezium_json(ref('changes_of_current')) }}
