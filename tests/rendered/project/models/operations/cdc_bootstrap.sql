{{ config(meta={
    'snapshot': {'customer_id': 'int', 'name': 'string', 'note': 'void', 'full name': 'string'},
    'position': 'struct<committed_at:timestamp,lsn:bigint>',
}) }}
{{ taken_snapshot(source('raw', 'bootstrapped')) }}
