"""What an erasure finds in files, and removes from them."""
