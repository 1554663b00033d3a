"""Sentences and words of a line, and parts that fit the model.

A line is split at the ends of its sentences. A sentence that is still too long is split in half, at
the space nearest its middle or else between characters, until every part fits. No text is lost but
the white space at the seams.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from sentencex import segment

from mtkit.config.languages import language_code

MAX_TEXT_CHARACTERS = 1 << 20
"""Characters of a line that are translated; the rest of a longer line is left out."""
BLOCK_CHARACTERS = 4096
"""Characters that sentencex splits at a time."""

_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*\s+|[。！？｡][\"'」』”’）]*\s*")
_SPACE, _WORD = re.compile(r"\s"), re.compile(r"\S+")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef]"  # kana, Han, and their punctuation
)
"""A letter of a script that is written without spaces between words."""


def split_to_fit(
    text: str, encode: Callable[[str], list[int]], max_length: int
) -> Iterator[tuple[str, list[int]]]:
    """Yield the parts of a text in order, each with the subwords that `encode` gives.

    No part has more than `max_length` subwords, unless it is a single character.
    """
    ids = encode(text)
    parts = [text]
    if len(ids) > max_length:
        parts = _sentences(text)
        if len(parts) == 1:
            parts = _halves(parts[0])
    if len(parts) == 1:
        yield (text, ids) if parts[0] == text else (parts[0], encode(parts[0]))
    else:
        for part in parts:
            yield from split_to_fit(part, encode, max_length)


def split_sentences(line: str, language: str | None) -> list[str]:
    """Return the sentences of a line by the rules of its language; without a language, the line.

    None of them is blank. Languages without rules of their own are split at full stops. Where a
    boundary is doubtful, the two sentences stay together.
    """
    if language is None:
        return [line]
    # sentencex panics at some wide spaces, and takes quadratic time for unclosed quotes.
    spaced, code = _SPACE.sub(" ", line), language_code(language)
    sentences = (
        sentence.strip()
        for block in _blocks(spaced)
        for sentence in (segment(code, block) if len(block) <= BLOCK_CHARACTERS else [block])
    )
    parts = list(filter(None, sentences))
    begins = find_parts(spaced, parts)
    return [line[at : at + len(part)] for at, part in zip(begins, parts, strict=True)] or [line]


def _blocks(text: str) -> Iterator[str]:
    """Yield pieces that end where a sentence may end, of BLOCK_CHARACTERS at most if possible."""
    start = end = 0
    for following in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        if following - start > BLOCK_CHARACTERS and end > start:
            yield text[start:end]
            start = end
        end = following
    yield text[start:]


def find_parts(text: str, parts: Iterable[str]) -> Iterator[int]:
    """Yield where in `text` each of its parts begins; they are in order."""
    end = 0
    for part in parts:
        place = text.index(part, end)
        yield place
        end = place + len(part)


def join_parts(texts: Iterable[str]) -> str:
    """Join texts with a space at each seam, but none between letters of unspaced scripts."""
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
    """The words of a text, as `str.split` gives them."""

    def __init__(self, text: str) -> None:
        self._ends = [match.end() for match in _WORD.finditer(text)]

    def at(self, offset: int) -> int:
        """Return the number of the word at a character, or of the next word, or of the last."""
        return min(bisect_right(self._ends, offset), len(self._ends) - 1)
