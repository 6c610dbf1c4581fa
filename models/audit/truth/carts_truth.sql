{{ cdc._truth(source('shop', 'carts')) }}
