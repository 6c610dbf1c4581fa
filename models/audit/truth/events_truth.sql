{{ cdc._truth(source('shop', 'events')) }}
