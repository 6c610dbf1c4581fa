{{ config(meta={
    'tables': ['cdc_bootstrap__raw_stock'],
    'snapshot': {'sku': 'string', 'cents': 'string', 'exported_seq': 'string'},
    'position': 'bigint',
}) }}
{{ taken_snapshot(source('raw', 'stock')) }}
