{{ cdc._truth(source('shop', 'orders')) }}
