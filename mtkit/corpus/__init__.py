"""Parallel text: read, validate, filter and check it."""
