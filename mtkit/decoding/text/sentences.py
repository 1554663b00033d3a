"""Split lines into sentences, into parts that fit the model, and into words; join parts again.

Only the white space between parts is lost.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import chain, pairwise
from unicodedata import category

from sentencex import segment

from mtkit.config.language_codes import language_code

BLOCK_CHARACTERS = 4096
"""Number of characters that sentencex splits at a time."""

# Full stops and question marks: Latin; Han and kana; Devanagari, Urdu, Ethiopic, Burmese, Khmer,
# Armenian, Tibetan.
_SENTENCE_END = re.compile(r"[.!?…؟][\"'”’»)\]]*\s+|[。！？｡।॥۔።፧။។៕։།][\"'”’»)\]」』）]*\s*")
_JOINED = re.compile("\u200d|.[\U0001f3fb-\U0001f3ff]")
"""A joiner, or an emoji with its colour of skin."""
_SPACE, _WORD = re.compile(r"\s"), re.compile(r"\S+")
_CLOSE_SENTENCES = "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef"
"""Characters of kana and Han, whose sentences are not separated by spaces."""
UNSPACED = re.compile(f"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff{_CLOSE_SENTENCES}]")
"""A letter of a script without spaces between words: kana, Han, Thai, Lao, Burmese, or Khmer."""
_CLOSE = re.compile(f"[{_CLOSE_SENTENCES}]")
_STOPPED_WORD = re.compile(r"([^\s()\[\]\"'“”„‘’«»/-]*)\.[\"'”’»)\]]*$")
_VOWELS = frozenset("aeiouy")
_FIRST_LETTER = re.compile(r"[^\W_]")
_USED_WORD = re.compile(r"([^\s.,;:!?()\[\]\"'“”„‘’«»/-]+)(\.(?=\s+\S))?")
"""A word, and the full stop after it if the line goes on."""
MAX_SHORT_WORD = 4
"""Letters of the longest word that is never a sentence on its own."""
CONTEXT_CHARACTERS = 64
"""Characters that are read before and after a full stop to decide whether it ends a sentence."""


def split_to_fit(
    text: str,
    encode: Callable[[str], list[int]],
    max_length: int,
    abbreviations: Container[str] = (),
) -> Iterator[tuple[str, list[int]]]:
    """Yield the parts of a text in order, each with its subword ids by `encode`.

    A text of more than `max_length` subwords is split at sentence ends, else at the space nearest
    to its middle, else in half. Only a part of one character can still exceed `max_length`.
    """
    ids = encode(text)
    parts = [text]
    if len(ids) > max_length:
        ends = (match.end() for match in _SENTENCE_END.finditer(text))
        parts = _split_at(ends, text, abbreviations)
        if len(parts) == 1:
            half = _boundary(parts[0], len(parts[0]) // 2)
            spaces = [match.start() for match in _SPACE.finditer(parts[0])]
            cut = min(spaces, key=lambda space: abs(space - half), default=half)
            parts = [part for it in (parts[0][:cut], parts[0][cut:]) if (part := it.strip())]
    if len(parts) == 1:
        yield (text, ids) if parts[0] == text else (parts[0], encode(parts[0]))
    else:
        for part in parts:
            yield from split_to_fit(part, encode, max_length, abbreviations)


def _boundary(text: str, at: int) -> int:
    """Return the first offset from `at` on, else the last before it, that cuts no character."""

    def is_cut(at: int) -> bool:
        return category(text[at])[0] == "M" or bool(_JOINED.search(text[at - 1 : at + 1]))

    offsets = chain(range(at, len(text)), range(at - 1, 0, -1))
    return next((offset for offset in offsets if not is_cut(offset)), at)


def split_sentences(
    line: str, language: str | None, abbreviations: Container[str] = ()
) -> list[str]:
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
    ends = find_parts(spaced, filter(None, sentences))
    return _split_at(ends, line, abbreviations) or [line]


def _split_at(ends: Iterable[int], text: str, abbreviations: Container[str]) -> list[str]:
    """Split a text at those offsets where a sentence surely ends; leave out blank parts."""
    cuts = [0]
    for end in ends:
        before = text[max(cuts[-1], end - CONTEXT_CHARACTERS) : end].strip()
        after = text[end : end + CONTEXT_CHARACTERS]
        if not _is_short(before) and _is_sentence_end(before, after, abbreviations):
            cuts.append(end)
    if len(cuts) > 1 and _is_short(text[cuts[-1] :][:CONTEXT_CHARACTERS].strip()):
        cuts.pop()
    return [part for a, b in pairwise([*cuts, len(text)]) if (part := text[a:b].strip())]


def _is_short(text: str) -> bool:
    """Return whether the text is a short word or number with a full stop, such as "Mr." or "1."."""
    return text.endswith(".") and len(text) <= MAX_SHORT_WORD + 1 and " " not in text


def _is_sentence_end(before: str, after: str, abbreviations: Container[str]) -> bool:
    """Return whether a sentence surely ends between the texts `before` and `after`.

    Return False before a digit or a small letter, after a quotation in a Japanese sentence, or
    after the full stop of a short number, an initial, an abbreviation, a name of two letters, or a
    word without vowels.
    """
    first = _FIRST_LETTER.search(after)
    is_quoted = before.endswith(("」", "』")) and not after.lstrip().startswith(("「", "『"))
    if is_quoted or (first and (first[0].isdigit() or first[0].islower())):
        return False
    stopped = _STOPPED_WORD.search(before)
    word = stopped[1].rstrip(".") if stopped else ""
    is_number = 0 < len(word) < MAX_SHORT_WORD and not any(map(str.isalpha, word))
    is_name = len(word) == 1 or (len(word) == 2 and word[0].isupper())
    is_spoken = word.isupper() or not _VOWELS.isdisjoint(word.lower())
    is_unspoken = word.isascii() and word.isalpha() and not is_spoken
    return not (is_number or is_name or is_unspoken or "." in word or word in abbreviations)


def learn_abbreviations(lines: Iterable[str]) -> set[str]:
    """Return the words that, inside a line, nearly always have a full stop.

    This is a simple form of Kiss and Strunk 2006, who apply a significance test to the counts.
    """
    uses = Counter(use for line in lines for use in _USED_WORD.findall(line))
    stopped = ((word, count) for (word, stop), count in uses.items() if stop and count >= 3)
    return {word for word, count in stopped if uses[word, ""] <= count / 4}


def _blocks(text: str) -> Iterator[str]:
    """Split a text where a sentence may end, if possible into blocks of up to BLOCK_CHARACTERS."""
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
    """Join texts by spaces, but without a space between kana or Han."""
    line = ""
    for text in filter(None, texts):
        is_close = line and _CLOSE.match(line[-1]) and _CLOSE.match(text)
        line += text if is_close or not line else f" {text}"
    return line


class Words:
    """The words of a text, split at white space."""

    def __init__(self, text: str) -> None:
        self._ends = [match.end() for match in _WORD.finditer(text)]

    def at(self, offset: int) -> int:
        """Return the number of the word at or after a character offset; at the end, of the last."""
        return min(bisect_right(self._ends, offset), len(self._ends) - 1)
