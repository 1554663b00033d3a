"""Extras: each adds abilities that the core finds by entry points (`mtkit/plugins.py`)."""
