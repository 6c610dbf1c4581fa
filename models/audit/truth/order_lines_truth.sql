{{ cdc._truth(source('shop', 'order_lines')) }}
