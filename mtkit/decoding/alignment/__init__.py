"""Which word of a line each word of its translation comes from."""
