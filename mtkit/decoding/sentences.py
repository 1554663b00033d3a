"""Text in pieces: words, and lines that are too long for the model, split into parts and joined.

A line is split at the ends of its sentences; a sentence that is still too long in halves, at the
space nearest its middle, or where it has none between characters, until every part fits. No text
is lost but the white space at the seams.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from sentencex import segment

from mtkit.config.languages import language_code

LONGEST = 1 << 20
"""Characters of a line that are translated; the rest of a longer line is left out."""

BLOCK = 4096
"""Characters whose sentences are looked for at a time."""

_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*\s+|[。！？｡][\"'」』”’）]*\s*")
_SPACE, _WORD = re.compile(r"\s"), re.compile(r"\S+")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef]"  # kana, Han, and their punctuation
)
"""A letter of a script that is written without spaces between words."""


def split_line(line: str, fits: Callable[[str], bool]) -> list[str]:
    """The parts of `line` in order, each of which fits (or is a single character)."""
    if fits(line):
        return [line]
    parts = _sentences(line)
    if len(parts) == 1:
        parts = _halves(parts[0])
    if len(parts) == 1:
        return parts
    return [small for part in parts for small in split_line(part, fits)]


def split_sentences(line: str, language: str | None) -> list[str]:
    """The sentences of a line, none of them blank, by the rules of its language; without, the line.

    What says nothing of a language knows its full stops at least; where it is doubtful, two
    sentences stay together.
    """
    if language is None:
        return [line]
    # sentencex panics at some wider spaces, and takes the square of the time of unclosed quotes.
    spaced, code = _SPACE.sub(" ", line), language_code(language)
    found = (
        sentence.strip()
        for block in _blocks(spaced)
        for sentence in (segment(code, block) if len(block) <= BLOCK else [block])
    )
    parts = list(filter(None, found))
    begins = places(spaced, parts)
    return [line[at : at + len(part)] for at, part in zip(begins, parts, strict=True)] or [line]


def _blocks(text: str) -> Iterator[str]:
    """Pieces that end where a sentence may, of BLOCK characters at most where that allows it."""
    start = end = 0
    for following in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        if following - start > BLOCK and end > start:
            yield text[start:end]
            start = end
        end = following
    yield text[start:]


def places(text: str, parts: Iterable[str]) -> Iterator[int]:
    """Where in `text` each of its parts, which are in order, begins."""
    end = 0
    for part in parts:
        place = text.index(part, end)
        yield place
        end = place + len(part)


def join_parts(texts: Iterable[str]) -> str:
    """One line: with a space at each seam, but none between letters of unspaced scripts."""
    line = ""
    for text in filter(None, texts):
        is_unspaced = line and UNSPACED.match(line[-1]) and UNSPACED.match(text)
        line += text if is_unspaced or not line else f" {text}"
    return line


def _sentences(line: str) -> list[str]:
    cuts = [0, *(match.end() for match in _SENTENCE_END.finditer(line)), len(line)]
    return [part for start, end in pairwise(cuts) if (part := line[start:end].strip())]


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    spaces = [match.start() for match in _SPACE.finditer(text)]
    cut = min(spaces, key=lambda space: abs(space - middle)) if spaces else middle
    return [half for half in (text[:cut].strip(), text[cut:].strip()) if half]


class Words:
    """The words of a text, as `str.split` has them, found by their place in it."""

    def __init__(self, text: str) -> None:
        self._ends = [match.end() for match in _WORD.finditer(text)]

    def at(self, offset: int) -> int:
        """The number of the word at a character, or of the next word, or else of the last."""
        return min(bisect_right(self._ends, offset), len(self._ends) - 1)
