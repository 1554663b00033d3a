"""Find the parts of a line that are copied, because there is nothing in them to translate."""

from __future__ import annotations

import re
from itertools import chain, groupby, pairwise

from mtkit.decoding.sentences import join_parts
from mtkit.tokenizer.codec import Tokenizer

_EMOJI = re.compile(
    "(?:(?:[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
    "|[\xa9\xae\u203c-\u3299](?=\ufe0f)"  # text symbols that are displayed as pictures
    "|[0-9#*](?=\ufe0f?\u20e3))"  # a keycap
    "[\u200d\u20e3\ufe0e\ufe0f\U000e0020-\U000e007f]*)+"  # joiners and variation selectors
)
# Numbers next to words are part of the sentence: "2 dogs", "1. Mai", "in 2024".
_BULLET = "[-–—−*•‣⁃◦·▪▫●○■□◆◇►▶➢➤✓✔→>|#]+"
_DATE = r"\d{1,4}(?:[-./:]\d{1,4}){2}[\d.,:]{0,9}"
_END = ".!?…。！？؟।۔"
_NUMBER = r"\d[\d.,:]{0,9}"
_MARKS_BEFORE = re.compile(
    rf"(?:(?:{_NUMBER} )?(?:{_BULLET}|{_DATE}|[(\[]?{_NUMBER}[)\]:]) )+(?=\S*[^\W\d_])"
)
_MARKS_AFTER = re.compile(
    rf"(?<=[{_END}])(?: (?:{_BULLET}|{_DATE}|\({_NUMBER}\)|\[{_NUMBER}\]|[:;]-?[()]))+$"
)


def has_letters(text: str) -> bool:
    """Return whether there is anything to translate; numbers, marks and emoji are no letters."""
    return any(map(str.isalpha, text))


def split_verbatim(text: str, tokenizer: Tokenizer) -> list[tuple[str, bool]]:
    """Split a text into runs, each with True (to be translated) or False (to be copied).

    List marks and dates before the first word, dates and marks after the last sentence, and emoji
    that are not in the vocabulary are copied. An emoji within a sentence moves to its end.
    """
    begin = before.end() if (before := _MARKS_BEFORE.match(text)) else 0
    end = after.start() if (after := _MARKS_AFTER.search(text, begin)) else len(text)
    emoji = [
        it.span() for it in _EMOJI.finditer(text, begin, end) if not tokenizer.can_spell(it.group())
    ]
    cuts = [0, begin, *chain(*emoji), end, len(text)]  # every second piece is copied
    pieces = [text[start:stop] for start, stop in pairwise(cuts)]

    def is_translated(i: int) -> bool:
        return i % 2 == 1 and has_letters(pieces[i])

    runs: list[tuple[str, bool]] = []
    for translated, places in groupby(range(len(pieces)), is_translated):
        run = "".join(pieces[i] for i in places).strip()
        if translated and len(runs) > 1 and runs[-2][1] and not _ends_sentence(*runs[-2:]):
            runs[-2:] = [(join_parts([runs[-2][0], run]), True), runs[-1]]
        elif run and not translated and runs and not runs[-1][1]:
            runs[-1] = (f"{runs[-1][0]} {run}", False)
        elif run:
            runs.append((run, translated))
    return runs


def _ends_sentence(translated: tuple[str, bool], copied: tuple[str, bool]) -> bool:
    """Return whether the translated run, or the copied run after it, ends a sentence."""
    return translated[0].rstrip("\"'”’»)]")[-1:] in _END or any(map(_END.count, copied[0]))
