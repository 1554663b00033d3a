"""Find letters that were lost when a file was saved in an encoding that lacks them.

A program that cannot write a letter writes a substitute, most often `?`. A single line proves
nothing: sound text has such characters in URLs and code, and where a space is missing. But there
they are rare, or in words that both sides share.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from mtkit.corpus.characters import is_in_capitals, is_letter, is_small, letters_and_marks
from mtkit.corpus.findings import MAX_EXAMPLES, Finding, Status
from mtkit.corpus.read import Pair
from mtkit.corpus.statistics import CorpusStatistics, SideStatistics

MIN_SHARE, MAX_SHARE = 0.003, 0.01
"""Shares of the lines of a side: up to the first the corpus passes, above the second it fails.

Of six sound corpora, the largest share was 0.2 %. A rare letter, ŋ in Wolof, was lost in 6 %.
"""
MIN_DAMAGED_LINES = 5
"""Fewest lines with lost letters that say something about a corpus."""
MIN_LENGTH = 3
"""A text that is mostly signs says something if it has more characters, unlike `???`."""

_PUNCTUATION = "\"'()[]{}<>.,;:!“”‘’«»„…"
_CODE = frozenset("=/\\<>(){}[]&|$^*+#@%:~`")
"""Characters inside URLs, paths and program code."""
_BOXES = "□▯\x1a"
"""White squares of PDF files, and the control character that ICU writes.

U+FFFD is left out: it also stands for bytes that are not UTF-8, so another check counts it.
"""


@dataclass(frozen=True)
class Substitute:
    """A character that stands where a letter was."""

    name: str
    """What is seen in the text, for messages."""
    signs: str
    """The characters; "": combining marks, whose letter is missing."""
    find: Callable[[str, SideStatistics], list[str]]
    """Return the words of a text that have lost letters."""
    min_share_of_sign: float = 0.0
    """Smallest share of texts with lost letters among the texts that have the character at all."""

    def may_be_in(self, text: str) -> bool:
        """Return whether the text has the character at all; a mark may be in any text."""
        return not self.signs or any(sign in text for sign in self.signs)


def _damaged_by_question_marks(text: str, side: SideStatistics) -> list[str]:
    words = [word for word in text.split() if "?" in word]
    if _is_mostly("?", text):
        return words
    if not side.is_spaced:  # "?" ends a sentence, and the next one follows without a space
        return []
    return [word for word in words if _has_mark_before_letter(word)]


def _is_mostly(sign: str, text: str) -> bool:
    """Return whether most of a text is one sign, because no letter of its script was kept."""
    length = len("".join(text.split()))
    return 2 * text.count(sign) > length > MIN_LENGTH


def _has_mark_before_letter(word: str) -> bool:
    """Return whether `?` stands before a small letter, or several before letters without case.

    Before a capital, a space may be missing, and so it may before one letter without case.
    """
    word = word.strip(_PUNCTUATION)
    is_code = "." in word or not _CODE.isdisjoint(word)
    if is_code:
        return False
    _, *later_parts = word.split("?")
    categories = [unicodedata.category(part[0]) for part in later_parts if part]
    if "Ll" in categories:
        return True
    return categories.count("Lo") + categories.count("Lm") > 1


def _damaged_by_underscores(text: str, _: SideStatistics) -> list[str]:
    words = [word for word in text.split() if "_" in word]
    if _is_mostly("_", text):
        return words
    damaged = [word for word in words if _has_gap(word)]
    has_mostly_names = 2 * len(damaged) < len(words)
    return [] if has_mostly_names else damaged


def _has_gap(word: str) -> bool:
    """Return whether `_` stands at one edge of a plain word, or next to a single letter.

    Elsewhere it joins the parts of a name, as in `file_name`, or is markup, as in `_word_`.
    """
    word = word.strip(_PUNCTUATION)
    letters = word.replace("_", "")
    is_plain = bool(letters) and letters_and_marks(letters) == letters
    if not is_plain or is_in_capitals(letters):
        return False
    parts = word.split("_")
    has_one_edge = (parts[0] == "") != (parts[-1] == "")
    has_single_letter = any(len(part) == 1 for part in parts)
    return has_one_edge or has_single_letter


def _damaged_by_inverted_marks(text: str, _: SideStatistics) -> list[str]:
    damaged: list[str] = []
    for word in text.split():
        before, *later_parts = word.split("¿")
        follows_letter = before != "" and is_letter(before[-1])
        if follows_letter and any(is_small(part[0]) for part in later_parts if part):
            damaged.append(word)
    return damaged


def _damaged_by_boxes(text: str, _: SideStatistics) -> list[str]:
    damaged: list[str] = []
    for word in text.split():
        has_box = any(box in word for box in _BOXES)
        if has_box and len(word) > 1:  # a box alone may be one to tick
            damaged.append(word)
    return damaged


def _without_first_letter(text: str, _: SideStatistics) -> list[str]:
    """Return the words that begin with a combining mark, which belongs on a letter."""
    if text.isascii():
        return []
    return [word for word in text.split() if _is_letter_mark(word[0])]


def _is_letter_mark(character: str) -> bool:
    is_variation_selector = 0xFE00 <= ord(character) <= 0xFE0F
    return unicodedata.category(character) in ("Mn", "Mc") and not is_variation_selector


SUBSTITUTES = (
    Substitute("? inside words", "?", _damaged_by_question_marks, min_share_of_sign=0.1),
    Substitute("_ in place of letters", "_", _damaged_by_underscores, min_share_of_sign=0.4),
    Substitute("¿ inside words", "¿", _damaged_by_inverted_marks, min_share_of_sign=0.25),
    Substitute("□ in words", _BOXES, _damaged_by_boxes),
    Substitute("combining marks without a letter", "", _without_first_letter),
)


@dataclass(frozen=True)
class LetterLoss:
    """A substitute that one side of a corpus has."""

    substitute: Substitute
    side: Literal["source", "target"]
    statistics: SideStatistics
    """Those of the side."""

    def is_in(self, pair: Pair) -> bool:
        """Return whether the pair has lost letters.

        A word that the other side has, too, was not translated, such as a URL: it proves nothing.
        """
        text, other_text = pair.source, pair.target
        if self.side == "target":
            text, other_text = other_text, text
        if not self.substitute.may_be_in(text):
            return False
        damaged = self.substitute.find(text, self.statistics)
        return bool(damaged) and not set(other_text.split()).issuperset(damaged)

    def describe(self, share: float) -> str:
        """Say which share of the lines has lost letters."""
        percent = f"{share:.0%}" if share >= MAX_SHARE else f"{share:.1%}"
        return f"{self.substitute.name} in {percent} of the {self.side}s"


def find_losses(statistics: CorpusStatistics) -> list[tuple[LetterLoss, list[Pair]]]:
    """Return each loss that the sample of a corpus proves, with the damaged pairs, worst first."""
    losses: list[tuple[LetterLoss, list[Pair]]] = []
    for substitute in SUBSTITUTES:
        for loss in (
            LetterLoss(substitute, "source", statistics.source),
            LetterLoss(substitute, "target", statistics.target),
        ):
            damaged = [pair for pair in statistics.sample if loss.is_in(pair)]
            needed = max(MIN_DAMAGED_LINES, MIN_SHARE * len(statistics.sample))
            if len(damaged) >= needed and _is_usual(loss, statistics, damaged):
                losses.append((loss, damaged))
    return sorted(losses, key=lambda loss: -len(loss[1]))


def _is_usual(loss: LetterLoss, statistics: CorpusStatistics, damaged: Sequence[Pair]) -> bool:
    """Return whether the texts that have the substitute often have it in place of letters."""
    texts = [getattr(pair, loss.side) for pair in statistics.sample]
    texts_with_sign = sum(map(loss.substitute.may_be_in, texts))
    return len(damaged) >= loss.substitute.min_share_of_sign * texts_with_sign


def check_lost_letters(statistics: CorpusStatistics) -> Finding:
    """Check that no letters were lost on a side, in the sample of the statistics."""
    pairs = len(statistics.sample)
    losses = find_losses(statistics)
    damaged: dict[str, Pair] = {}
    for _, of_loss in losses:
        damaged.update((pair.where, pair) for pair in of_loss)
    status: Status = "passed"
    note = ""
    if losses:
        _, of_worst = losses[0]
        status = "failed" if len(of_worst) > MAX_SHARE * pairs else "warned"
        names = ", ".join(loss.describe(len(found) / pairs) for loss, found in losses)
        note = f"{names}: letters were lost when the file was saved"
    return Finding(
        name="lost letters",
        status=status,
        count=len(damaged),
        checked=pairs,
        meaning="they cannot be restored from this file",
        advice="save the original again, as UTF-8 (a spreadsheet: as CSV UTF-8)",
        note=note,
        examples=[pair.excerpt() for pair in islice(damaged.values(), MAX_EXAMPLES)],
    )
