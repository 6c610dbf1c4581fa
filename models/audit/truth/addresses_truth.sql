{{ cdc._truth(source('shop', 'addresses')) }}
