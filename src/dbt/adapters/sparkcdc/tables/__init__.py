"""Tables of any format: what a schema holds, types of columns, where files are, what is known."""
