"""The special symbols: fixed in every tokenizer, hence in every model."""

from __future__ import annotations

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Their ids."""
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""What SentencePiece writes for a space; a subword that begins with it begins a word."""
