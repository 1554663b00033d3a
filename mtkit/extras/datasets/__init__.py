"""Corpora that the `datasets` library loads, from folders and from the Hugging Face hub."""
