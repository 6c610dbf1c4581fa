"""What samples of changes and schemas of databases say: format, columns, types and keys."""
