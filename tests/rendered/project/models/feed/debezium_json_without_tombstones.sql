{{ cdc.debezium_json(ref('changes_of_current'), name="it's", tombstones=false) }}
