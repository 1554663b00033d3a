"""The special symbols, with the same ids in every tokenizer and model."""

from __future__ import annotations

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of the special symbols."""
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""SentencePiece's symbol for a space; a subword that begins with it begins a word."""
