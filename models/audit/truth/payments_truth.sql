{{ cdc._truth(source('shop', 'payments')) }}
