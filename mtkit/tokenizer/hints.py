"""The symbols of hints and placeholders: characters that no text has, but the vocabulary does.

A hint (Dinu et al. 2019) tells a model how to translate a term: after the term, the source has its
translation, and symbols surround both. A placeholder stands for what no translation changes, such
as a URL; the model copies it. Unicode reserves these characters (noncharacters, section 23.7) for
the inside of a program, so a text that has them is faulty, and loses them. The first of them,
U+FDD0, separates subwords in the training of a vocabulary (`train_spm.py`).
"""

from __future__ import annotations

HINT_BEGIN = "\ufdd1"
"""Stands before a term that has a hint."""
HINT_MEANS = "\ufdd2"
"""Stands between the term and its translation."""
HINT_END = "\ufdd3"
"""Stands after the translation."""
PLACEHOLDERS = tuple(map(chr, range(0xFDD4, 0xFDE4)))
"""Sixteen placeholders; a line uses them from the first one on."""
SOURCE_SYMBOLS = (HINT_BEGIN, HINT_MEANS, HINT_END)
"""The symbols of hints, which only sources have."""
HINT_SYMBOLS = (*SOURCE_SYMBOLS, *PLACEHOLDERS)
"""All of them, as user-defined symbols of a SentencePiece vocabulary."""
