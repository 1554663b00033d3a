"""Models in other people's formats, out and in, and proof that they say the same."""
