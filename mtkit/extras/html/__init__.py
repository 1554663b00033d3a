"""A page that translates by itself, in a browser."""
