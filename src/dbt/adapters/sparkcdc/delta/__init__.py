"""Tables of Delta: what their log says, and how they are created."""
