{{ cdc._truth(source('shop', 'stock')) }}
