"""Find the parts of a line that are copied, because there is nothing in them to translate."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, groupby, pairwise

from mtkit.decoding.text.sentences import join_parts
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
# A date can match in several ways, and so can a number before a mark. The possessive "++" keeps the
# first way of each, because trying all combinations would take exponential time.
_MARKS_BEFORE = re.compile(
    rf"(?:(?:{_NUMBER} )?(?:{_BULLET}|{_DATE}|[(\[]?{_NUMBER}[)\]:]) )++(?=\S*[^\W\d_])"
)
_MARK_AFTER = re.compile(rf"{_BULLET}|{_DATE}|\({_NUMBER}\)|\[{_NUMBER}\]|[:;]-?[()]")


@dataclass(frozen=True)
class Run:
    """A part of a line that is translated as a whole, or copied."""

    stretches: list[str]
    """Texts that follow each other in the line; emoji may stand between them."""
    is_translated: bool

    @property
    def text(self) -> str:
        """The stretches in one text."""
        return join_parts(self.stretches) if self.is_translated else " ".join(self.stretches)

    def find_characters(self, line: str, start: int) -> list[int]:
        """Return the offset in `line` of each character of `text`; search from `start` on.

        A space between two stretches has the offset of the character after it.
        """
        text, places = self.text, list[int]()
        for stretch in self.stretches:
            start = line.index(stretch, start)
            if text.startswith(" ", len(places)):
                places.append(start)
            places += range(start, start + len(stretch))
            start += len(stretch)
        return places


def has_letters(text: str) -> bool:
    """Return whether there is anything to translate; numbers, marks and emoji are no letters."""
    return any(map(str.isalpha, text))


def split_verbatim(text: str, tokenizer: Tokenizer) -> list[Run]:
    """Split a text into runs that are translated and runs that are copied.

    List marks and dates before the first word, dates and marks after the last sentence, and emoji
    that are not in the vocabulary are copied. An emoji within a sentence moves to its end.
    """
    begin = before.end() if (before := _MARKS_BEFORE.match(text)) else 0
    end = _begin_of_last_marks(text, begin)
    emoji = [
        it.span() for it in _EMOJI.finditer(text, begin, end) if not tokenizer.can_spell(it.group())
    ]
    cuts = [0, begin, *chain(*emoji), end, len(text)]  # every second piece is copied
    pieces = [text[start:stop] for start, stop in pairwise(cuts)]

    def is_translated(i: int) -> bool:
        return i % 2 == 1 and has_letters(pieces[i])

    runs: list[Run] = []
    for translated, places in groupby(range(len(pieces)), is_translated):
        stretch = "".join(pieces[i] for i in places).strip()
        is_followed = len(runs) > 1 and runs[-2].is_translated
        if translated and is_followed and not _ends_sentence(*runs[-2:]):
            runs[-2].stretches.append(stretch)
        elif stretch and not translated and runs and not runs[-1].is_translated:
            runs[-1].stretches.append(stretch)
        elif stretch:
            runs.append(Run([stretch], translated))
    return runs


def _begin_of_last_marks(text: str, begin: int) -> int:
    """Return where the dates and marks after the last sentence begin, else the end of the text."""
    found = end = len(text)
    while (space := text.rfind(" ", begin, end)) > begin:
        if not _MARK_AFTER.fullmatch(text, space + 1, end):
            break
        if text[space - 1] in _END:
            found = space
        end = space
    return found


def _ends_sentence(translated: Run, copied: Run) -> bool:
    """Return whether a translated run, or the copied run after it, ends a sentence.

    Read only the last stretch of each: the stretches before it ended none.
    """
    last = translated.stretches[-1].rstrip("\"'”’»)]")[-1:]
    return last in _END or any(map(_END.count, copied.stretches[-1]))
