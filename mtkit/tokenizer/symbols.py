"""Ids of the special symbols: fixed in every tokenizer, hence in every model."""

from __future__ import annotations

PAD, UNK, BOS, EOS = 0, 1, 2, 3
