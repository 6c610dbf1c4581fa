{{ cdc._truth(source('shop', 'products')) }}
