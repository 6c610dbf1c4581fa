{{ cdc.events(source('raw', 'delta_cdf')) }}
