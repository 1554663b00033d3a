"""What is copied, because there is nothing in it to translate: list marks, dates, unknown emoji.

Numbers next to words are part of a sentence, and are translated: "2 dogs", "1. Mai", "in 2024".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby, pairwise

from mtkit.corpus.characters import has_letters
from mtkit.decoding.text.demands import MARK, show_marks
from mtkit.decoding.text.line import Context, Copied, Segment, normalised_prefix
from mtkit.decoding.text.text import Text, join_texts
from mtkit.tokenizer.codec import Tokenizer

_EMOJI = re.compile(
    "(?:(?:[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
    "|[\xa9\xae\u203c-\u3299](?=\ufe0f)"  # text symbols that are displayed as pictures
    "|[0-9#*](?=\ufe0f?\u20e3))"  # a keycap
    "[\u200d\u20e3\ufe0e\ufe0f\U000e0020-\U000e007f]*)+"  # joiners and variation selectors
)
_BULLET = "[-–—−*•‣⁃◦·▪▫●○■□◆◇►▶➢➤✓✔→>|#]+"
_DATE = r"\d{1,4}(?:[-./:]\d{1,4}){2}[\d.,:]{0,9}"
_END = ".!?…。！？؟।۔"
_NUMBER = r"\d[\d.,:]{0,9}"
# A date can match in several ways, and so can a number before a mark. The possessive "++" keeps the
# first way of each, because trying all combinations would take exponential time.
_MARKS_BEFORE = re.compile(
    rf"(?:(?:{_NUMBER} )?(?:{_BULLET}|{_DATE}|[(\[]?{_NUMBER}[)\]:]) )++(?=\S*[^\W\d_])"
)
_MARK_AFTER = re.compile(rf"{_BULLET}|{_DATE}|\({_NUMBER}\)|\[{_NUMBER}\]|[:;]-?[()]")


@dataclass
class _Run:
    """Pieces of a text that are translated as one text, or copied."""

    pieces: list[Text]
    """Between two pieces may be emoji, which belong to another run."""
    is_translated: bool


def copy_verbatim(segment: Segment, context: Context) -> list[Segment | Copied]:
    """Copy marks, dates and unknown emoji; translate all else, and everything after a prefix."""
    if normalised_prefix(segment.line):
        return [segment]
    parts: list[Segment | Copied] = []
    for run in _find_runs(segment.text, context.tokenizer):
        text = join_texts(run.pieces)
        if run.is_translated:
            parts.append(segment.with_text(text))
        else:
            parts.append(Copied(show_marks(text, segment.demands)))
    return parts


def _find_runs(text: Text, tokenizer: Tokenizer) -> list[_Run]:
    """Split a text into runs that are translated and runs that are copied, in order.

    List marks and dates before the first word, dates and marks after the last sentence, emoji that
    are not in the vocabulary, and text without letters beside them are copied. An unknown emoji
    within a sentence is copied after that sentence; a placeholder or tag within one is part of it.
    """
    cuts = _find_cuts(text.string, tokenizer)
    bounds = list(pairwise(cuts))  # even numbers: copied text; odd numbers: other text

    with_words: list[int] = []
    for number in range(1, len(bounds), 2):
        if has_letters(text.string[slice(*bounds[number])]):
            with_words.append(number)
    between_words = range(with_words[0], with_words[-1] + 1, 2) if with_words else range(0)

    def is_translated(number: int) -> bool:
        if number not in between_words:
            return False
        # A placeholder or tag between words belongs to their sentence.
        string = text.string[slice(*bounds[number])]
        return has_letters(string) or MARK in string

    runs: list[_Run] = []
    for translated, numbers in groupby(range(len(bounds)), is_translated):
        group = list(numbers)
        piece = text.cut(bounds[group[0]][0], bounds[group[-1]][1])
        if not piece.string:
            continue
        # Runs alternate, too: before a translated piece stand the text [-2] and the emoji [-1]
        # within its sentence.
        if translated and len(runs) > 1 and not _ends_sentence(*runs[-2:]):
            runs[-2].pieces.append(piece)
        elif not translated and runs and not runs[-1].is_translated:
            runs[-1].pieces.append(piece)
        else:
            runs.append(_Run([piece], translated))
    return runs


def _find_cuts(text: str, tokenizer: Tokenizer) -> list[int]:
    """Return where copied and other text begin in turn: 0, the copied text before, ..., the end."""
    marks = _MARKS_BEFORE.match(text)
    begin = marks.end() if marks else 0
    end = _begin_of_last_marks(text, begin)
    cuts = [0, begin]
    for emoji in _EMOJI.finditer(text, begin, end):
        if not tokenizer.can_spell(emoji.group()):
            cuts += emoji.span()
    return [*cuts, end, len(text)]


def _begin_of_last_marks(text: str, begin: int) -> int:
    """Return where the marks, dates and URLs after the last sentence begin, else the end."""
    first_mark = end = len(text)
    while (space := text.rfind(" ", begin, end)) > begin:
        mark = text[space + 1 : end]
        if not (_MARK_AFTER.fullmatch(mark) or mark == MARK):
            break
        if text[space - 1] in _END:
            first_mark = space
        end = space
    return first_mark


def _ends_sentence(translated: _Run, copied: _Run) -> bool:
    """Return whether a translated run, or the copied run after it, ends a sentence.

    Read only the last piece of each: the pieces before it ended none.
    """
    last_letter = translated.pieces[-1].string.rstrip("\"'”’»)]")[-1:]
    return last_letter in _END or any(mark in _END for mark in copied.pieces[-1].string)
