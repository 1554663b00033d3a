"""Sentence pairs as people keep them: text files, tables, datasets."""
