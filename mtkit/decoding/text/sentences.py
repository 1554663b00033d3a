"""Split lines into sentences, if the settings name the language of the input.

The model then translates each sentence by itself, and the translations are joined.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise

from sentencex import segment

from mtkit.config.language_codes import find_language, short_code
from mtkit.corpus.characters import (
    has_letters,
    is_capital,
    is_in_capitals,
    is_letter,
    is_number,
    is_small,
)
from mtkit.decoding.text.demands import MARK
from mtkit.decoding.text.line import Context, Segment
from mtkit.decoding.text.words import Range

BLOCK_CHARACTERS = 4096
"""Number of characters that sentencex splits at a time."""

# Full stops and question marks: Latin; Han and kana; Devanagari, Urdu, Ethiopic, Burmese, Khmer,
# Armenian, Tibetan.
SENTENCE_END = re.compile(r"[.!?…؟][\"'”’»)\]]*\s+|[。！？｡।॥۔።፧။។៕։།][\"'”’»)\]」』）]*\s*")
_KHMER_END = re.compile(r"[។៕][\"'”’»)\]]*\s*")
"""The full stops that sentencex does not know."""
_SPACE = re.compile(r"\s")
_STOPPED_WORD = re.compile(r"([^\s()\[\]\"'“”„‘’«»/-]*)\.[\"'”’»)\]]*$")
_VOWELS = frozenset("aeiouy")
_FIRST_LETTER = re.compile(r"[^\W_]")
_USED_WORD = re.compile(r"([^\s.,;:!?()\[\]\"'“”„‘’«»/-]+)(\.(?=\s+\S))?")
"""A word, and the full stop after it if the line goes on."""
MAX_SHORT_WORD = 4
"""Letters of the longest word that is never a sentence on its own."""
CONTEXT_CHARACTERS = 64
"""Characters that are read before and after a full stop to decide whether it ends a sentence."""


def split_into_sentences(segment: Segment, context: Context) -> list[Segment]:
    """Split a segment into its sentences."""
    settings = context.request.settings
    if settings.sentences is None:
        return [segment]
    abbreviations = set(settings.abbreviations.split())
    language = find_language(settings.source_tag or "") or settings.sentences
    ranges = find_sentences(segment.string, language, abbreviations)
    texts = [segment.text.cut(start, end) for start, end in _with_marks(ranges, segment.string)]
    return segment.split(texts) if texts else [segment]


def _with_marks(ranges: Sequence[Range], text: str) -> list[Range]:
    """Return the ranges of sentences; marks alone, such as of an end tag, are no sentence."""
    joined: list[Range] = []
    for start, end in ranges:
        if joined and (
            _has_only_marks(text[start:end]) or _has_only_marks(text[slice(*joined[-1])])
        ):
            start, _ = joined.pop()
        joined.append((start, end))
    return joined


def _has_only_marks(text: str) -> bool:
    return not text.strip(f"{MARK} ")


def split_sentences(
    line: str, language: str | None, abbreviations: Container[str] = ()
) -> list[str]:
    """Return the sentences of a line, none of them blank; without a language, the whole line.

    sentencex splits by the rules of the language, or at full stops; doubtful cases stay together.
    """
    if language is None:
        return [line]
    ranges = find_sentences(line, language, abbreviations)
    return [line[start:end].strip() for start, end in ranges] or [line]


def find_sentences(
    text: str, language: str, abbreviations: Container[str]
) -> list[tuple[int, int]]:
    """Return where each sentence begins and ends."""
    # sentencex crashes at some wide spaces, and takes quadratic time after an unclosed quote.
    spaced = _SPACE.sub(" ", text)
    starts = set(_sentence_starts(spaced, language))
    starts.update(match.end() for match in _KHMER_END.finditer(text))
    return split_at(sorted(starts), text, abbreviations)


def _sentence_starts(text: str, language: str) -> Iterator[int]:
    """Yield where sentencex begins a sentence."""
    code = short_code(language)
    end = 0
    for block in _blocks(text):
        # A block that cannot be split would take too long.
        sentences = segment(code, block) if len(block) <= BLOCK_CHARACTERS else [block]
        for sentence in sentences:
            spaces = len(sentence) - len(sentence.lstrip())
            if spaces < len(sentence):
                yield end + spaces
            end += len(sentence)


def _blocks(text: str) -> Iterator[str]:
    """Split a text where a sentence may end, if possible into blocks of up to BLOCK_CHARACTERS."""
    start = end = 0
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    for following in [*ends, len(text)]:
        if following - start > BLOCK_CHARACTERS and end > start:
            yield text[start:end]
            start = end
        end = following
    yield text[start:]


def split_at(
    places: Iterable[int], text: str, abbreviations: Container[str]
) -> list[tuple[int, int]]:
    """Split a text at those places where a sentence surely ends; leave out blank parts."""
    cuts = [0]
    for place in places:
        # Only a few characters are read, so that the time grows linearly with the text.
        first = max(cuts[-1], place - CONTEXT_CHARACTERS)
        before = text[first:place].strip()
        after = text[place : place + CONTEXT_CHARACTERS]
        if not _is_short(before) and _is_sentence_end(before, after, abbreviations):
            cuts.append(place)
    rest = text[cuts[-1] :][:CONTEXT_CHARACTERS].strip()
    if len(cuts) > 1 and _is_short(rest):
        cuts.pop()  # a short last word stays with the sentence before it
    ranges = pairwise([*cuts, len(text)])
    return [(start, end) for start, end in ranges if text[start:end].strip()]


def _is_short(text: str) -> bool:
    """Return whether the text is a short word or number with a full stop, such as "Mr." or "1."."""
    return text.endswith(".") and len(text) <= MAX_SHORT_WORD + 1 and " " not in text


def _is_sentence_end(before: str, after: str, abbreviations: Container[str]) -> bool:
    """Return whether a sentence surely ends between the texts `before` and `after`.

    Return False before a digit or a small letter, after 」 or 』 unless 「 or 『 follows, or
    after the full stop of a short number, an initial, an abbreviation, a name of two letters, or a
    word without vowels.
    """
    is_quoted = before.endswith(("」", "』"))
    if is_quoted and not after.lstrip().startswith(("「", "『")):
        return False
    first = _FIRST_LETTER.search(after)
    if first and (is_number(first[0]) or is_small(first[0])):
        return False
    stopped = _STOPPED_WORD.search(before)
    if not stopped:
        return True
    word = stopped[1].rstrip(".")
    return not _may_be_abbreviation(word, abbreviations)


def _may_be_abbreviation(word: str, abbreviations: Container[str]) -> bool:
    """Return whether a full stop after the word may end no sentence."""
    if "." in word or word in abbreviations:
        return True
    if 0 < len(word) < MAX_SHORT_WORD and not has_letters(word):
        return True  # a number, as in "2. Stock"
    if len(word) == 1 or (len(word) == 2 and is_capital(word[0])):
        return True  # an initial or a name, as in "J. Rowling" or "Dr. Braun"
    if not (word and word.isascii() and all(map(is_letter, word))):
        return False
    # "tbsp" has no vowels, and "FCT" is an acronym, which is spoken letter by letter.
    return not is_in_capitals(word) and _VOWELS.isdisjoint(word.lower())


def learn_abbreviations(lines: Iterable[str]) -> set[str]:
    """Return the words that, inside a line, nearly always have a full stop.

    This is a simple form of Kiss and Strunk 2006, who apply a significance test to the counts.
    """
    uses = Counter(use for line in lines for use in _USED_WORD.findall(line))
    stopped = ((word, count) for (word, stop), count in uses.items() if stop and count >= 3)
    return {word for word, count in stopped if uses[word, ""] <= count / 4}
