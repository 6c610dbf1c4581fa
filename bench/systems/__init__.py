"""What is compared: each system loads a table once and then applies batches of changes."""
