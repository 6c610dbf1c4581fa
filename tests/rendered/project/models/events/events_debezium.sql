{{ cdc.events(source('raw', 'debezium')) }}
