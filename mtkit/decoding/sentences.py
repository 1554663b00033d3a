"""Split lines into sentences, into parts that fit the model, and into words; join parts again.

Only white space at the seams is lost.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from sentencex import segment

from mtkit.config.languages import language_code

MAX_TEXT_CHARACTERS = 1 << 20
"""Number of characters of a line that are translated; the rest is left out."""
BLOCK_CHARACTERS = 4096
"""Number of characters that sentencex splits at a time."""

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
    """Yield the parts of a text in order, each with its subword ids by `encode`.

    A text of more than `max_length` subwords is split at sentence ends, else at the space next to
    its middle, else in half. Only a single character can have more than `max_length` subwords.
    """
    ids = encode(text)
    parts = [text]
    if len(ids) > max_length:
        ends = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
        parts = [part for a, b in pairwise(ends) if (part := text[a:b].strip())]
        if len(parts) == 1:
            half = len(parts[0]) // 2
            spaces = [match.start() for match in _SPACE.finditer(parts[0])]
            cut = min(spaces, key=lambda space: abs(space - half), default=half)
            parts = [part for it in (parts[0][:cut], parts[0][cut:]) if (part := it.strip())]
    if len(parts) == 1:
        yield (text, ids) if parts[0] == text else (parts[0], encode(parts[0]))
    else:
        for part in parts:
            yield from split_to_fit(part, encode, max_length)


def split_sentences(line: str, language: str | None) -> list[str]:
    """Return the sentences of a line, none of them blank; without a language, the whole line.

    sentencex splits by the rules of the language, or at full stops; doubtful cases stay together.
    """
    if language is None:
        return [line]
    # sentencex crashes at some wide spaces, and takes quadratic time after an unclosed quote.
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
    """Split a text where a sentence may end, if possible into at most BLOCK_CHARACTERS."""
    start = end = 0
    for following in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        if following - start > BLOCK_CHARACTERS and end > start:
            yield text[start:end]
            start = end
        end = following
    yield text[start:]


def find_parts(text: str, parts: Iterable[str]) -> Iterator[int]:
    """Yield the offset of each part in `text`; parts are in order."""
    end = 0
    for part in parts:
        place = text.index(part, end)
        yield place
        end = place + len(part)


def join_parts(texts: Iterable[str]) -> str:
    """Join texts by spaces, but without a space between letters of scripts that use none."""
    line = ""
    for text in filter(None, texts):
        is_unspaced = line and UNSPACED.match(line[-1]) and UNSPACED.match(text)
        line += text if is_unspaced or not line else f" {text}"
    return line


class Words:
    """The words of a text, split at white space."""

    def __init__(self, text: str) -> None:
        self._ends = [match.end() for match in _WORD.finditer(text)]

    def at(self, offset: int) -> int:
        """Return the number of the word at a character offset, else of the next or last word."""
        return min(bisect_right(self._ends, offset), len(self._ends) - 1)
