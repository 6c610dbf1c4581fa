{{ cdc._truth(source('shop', 'customers')) }}
