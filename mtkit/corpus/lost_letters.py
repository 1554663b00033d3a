"""Find letters that were lost when a file was saved in an encoding that lacks them.

Most programs write `?` for a letter that they cannot write. A single line proves nothing: sound
text has `?` in URLs and code, and where a space is missing. But there it is rare, or in words that
both sides share. (U+FFFD, which other programs write, is found by the check `invalid text`.)
"""

from __future__ import annotations

import re
from typing import Literal
from unicodedata import category

from mtkit.corpus.findings import MAX_EXAMPLES, Finding
from mtkit.corpus.read import Pair
from mtkit.corpus.statistics import CorpusStatistics

MAX_SHARE = 0.01
"""Largest share of the lines of a side that may have lost letters.

Of 25 sound corpora the largest share was 0.2 %. A rare letter, ŋ in Wolof, was lost in 6 %.
"""
MIN_DAMAGED_LINES = 5
"""Fewest lines with lost letters that say something about a corpus."""
MIN_LENGTH = 3
"""A text that is mostly `?` says something if it has more characters, unlike `???`."""

_PUNCTUATION = "\"'()[]{}<>.,;:!“”‘’«»„…"
_CODE = frozenset("=/\\<>(){}[]&|$^*+#@%:~`.")
"""Characters inside URLs, paths and program code."""
_LETTER_AFTER_MARK = re.compile(r"(?<=\?)[^\W\d_]")

SideName = Literal["source", "target"]


def has_lost_letters(pair: Pair, side: SideName, statistics: CorpusStatistics) -> bool:
    """Return whether a side of the pair has lost letters; `statistics`: those of its corpus.

    A word that the other side has, too, was not translated, such as a URL: it proves nothing.
    """
    text, other_text = pair.source, pair.target
    if side == "target":
        text, other_text = other_text, text
    if "?" not in text:
        return False
    words = text.split()
    if 2 * text.count("?") > len("".join(words)) > MIN_LENGTH:  # no letter of its script was kept
        return text != other_text
    if not getattr(statistics, side).is_spaced:  # the next sentence follows without a space
        return False
    return not {word for word in words if _is_damaged(word)}.issubset(other_text.split())


def _is_damaged(word: str) -> bool:
    """Return whether `?` stands before a small letter, or several before letters without case.

    Before a capital, a space may be missing, and so it may before one letter without case.
    """
    word = word.strip(_PUNCTUATION)
    if not _CODE.isdisjoint(word):
        return False
    kinds = [category(letter) for letter in _LETTER_AFTER_MARK.findall(word)]
    return "Ll" in kinds or kinds.count("Lo") > 1


def damaged_pairs(statistics: CorpusStatistics) -> dict[SideName, list[Pair]]:
    """Return the sides of a corpus that have lost letters, with the damaged pairs of the sample."""
    damaged: dict[SideName, list[Pair]] = {}
    sides: tuple[SideName, ...] = ("source", "target")
    for side in sides:
        pairs = [pair for pair in statistics.sample if has_lost_letters(pair, side, statistics)]
        if len(pairs) >= max(MIN_DAMAGED_LINES, MAX_SHARE * len(statistics.sample)):
            damaged[side] = pairs
    return damaged


def check_lost_letters(statistics: CorpusStatistics) -> Finding:
    """Check that no letters were lost on a side, in the sample of the statistics."""
    damaged = damaged_pairs(statistics)
    sample = len(statistics.sample)
    shares = [f"{len(pairs) / sample:.0%} of the {side}s" for side, pairs in damaged.items()]
    note = f"? inside words in {' and '.join(shares)}: letters were lost when the file was saved"
    pairs = {pair.where: pair for of_side in damaged.values() for pair in of_side}
    return Finding(
        name="lost letters",
        status="failed" if damaged else "passed",
        count=len(pairs),
        checked=sample,
        meaning="they cannot be restored from this file",
        advice="save the original again, as UTF-8 (a spreadsheet: as CSV UTF-8)",
        note=note if damaged else "",
        examples=[pair.excerpt() for pair in list(pairs.values())[:MAX_EXAMPLES]],
    )
