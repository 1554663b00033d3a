"""Which word of a line each word of its translation comes from."""

from __future__ import annotations

from mtkit.alignment.alignment import Alignment
from mtkit.alignment.links import Links, align, alignment_error_rate, from_pharaoh, to_pharaoh
from mtkit.alignment.words import Words, merge

__all__ = [
    "Alignment",
    "Links",
    "Words",
    "align",
    "alignment_error_rate",
    "from_pharaoh",
    "merge",
    "to_pharaoh",
]
