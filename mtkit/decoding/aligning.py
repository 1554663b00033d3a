"""Alignments of what was translated: attention between subwords as weights between words."""

from __future__ import annotations

from collections.abc import Sequence

from mtkit.decoding.alignment.alignment import Alignment
from mtkit.decoding.alignment.words import Words
from mtkit.decoding.contract import Hypothesis
from mtkit.tokenizer.codec import Tokenizer


def source_words(tokenizer: Tokenizer, line: str, parts: Sequence[str]) -> list[int]:
    """The number of the word of `line` that each subword of its parts, in order, belongs to."""
    words, place, numbers = Words(line), 0, []
    for part in parts:
        place = line.index(part, place)
        numbers += [words.at(place + offset) for offset in tokenizer.source_offsets(part)]
        place += len(part)
    return numbers


def align_hypothesis(
    tokenizer: Tokenizer, hypothesis: Hypothesis, text: str, source_words: Sequence[int]
) -> Alignment:
    """Of what a part of a line became, which is `text`; empty where attention was not asked for."""
    words = Words(text)
    if hypothesis.attention is None or not len(words):
        return Alignment()
    target_words = [words.at(offset) for offset in tokenizer.target_offsets(hypothesis.tokens)]
    return Alignment.of(hypothesis.attention, target_words, source_words)


def join_alignments(text: str, parts: Sequence[tuple[str, Alignment]]) -> Alignment:
    """Of a line from those of its parts, each with the text that it became; `text` is all of it."""
    words, place, found = Words(text), 0, []
    for part, alignment in parts:
        place = text.index(part, place)
        found.append((alignment, words.at(place)))
        place += len(part)
    return Alignment.joined(found)
