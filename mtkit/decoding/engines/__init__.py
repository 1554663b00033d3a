"""Engines: libraries that run the search, and the batches that they share."""
