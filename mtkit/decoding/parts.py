"""Lines as parts that a model can read, and translations of the parts as those of the lines.

A line of white space has no part. A line of more subwords than `max_length` has several, and so has
one of several sentences where they are to be translated one by one. Their translations are joined;
what was given as the prefix of such a line begins its first part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING

from mtkit.decoding.contract import Found, Hypothesis, Key, Request, Sentence
from mtkit.decoding.distinct import unlike
from mtkit.decoding.splitting import LONGEST, Words, join_parts, places, split_line, split_sentences
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.symbols import EOS

if TYPE_CHECKING:  # numpy, which few translations need, takes as long as all the rest
    from mtkit.decoding.alignment import Block


@dataclass(frozen=True)
class Translation:
    """What became of a line."""

    text: str
    score: float
    """log P / |y|^alpha of the tokens; of all parts together where the line was split."""
    tokens: list[str]
    truncated: bool
    """Whether it may miss something: it ran into `max_length`, or its line was over LONGEST."""
    n_best: list[Translation] = field(default_factory=list)
    """The K best, or K samples, where more than one was asked for."""
    blocks: tuple[Block, ...] = ()
    """The alignment of each of its parts with words, where it was asked for."""

    @property
    def links(self) -> set[tuple[int, int]]:
        """Words of the line and of `text` that belong together, counted from 0."""
        return {link for block in self.blocks for link in block.links}

    @property
    def shares(self) -> list[tuple[int, int, float]]:
        """Source word, target word, and the share of the latter's attention that the former got."""
        return [share for block in self.blocks for share in block.shares]


NOTHING = Translation("", -math.inf, [], False)
"""Where there are fewer texts than lines were asked for."""


@dataclass(frozen=True)
class Window:
    """Lines that are translated together: their parts, and what becomes of these."""

    tokenizer: Tokenizer
    request: Request
    lines: Sequence[str]
    prefixes: Sequence[str]
    """For each line, how its translation begins; blank where nothing is given."""
    first: int
    """The number of the first line."""

    @cached_property
    def sentences(self) -> dict[Key, Sentence]:
        """What the model reads: the parts of all lines, by number of line and of part."""
        texts = {i: line[:LONGEST] for i, line in enumerate(self.lines) if line.strip()}
        sources = self.tokenizer.encode_source(list(texts.values()))
        prefixes = self.tokenizer.encode_target([self.prefixes[i] for i in texts])
        sentences: dict[Key, Sentence] = {}
        for (i, line), ids, prefix in zip(texts.items(), sources, prefixes, strict=True):
            given = prefix[: self._most]
            is_whole = len(ids) <= self._most and len(self._sentences(line)) == 1
            for part, piece in enumerate([ids] if is_whole else self._divided(line)):
                if piece:
                    sentences[self.first + i, part] = Sentence([*piece, EOS], given)
                    given = []
        return sentences

    def join(self, found: Found) -> list[Translation]:
        """The translation of each line, of what was found for each sentence."""
        words = self._source_words() if self.request.attention else {}
        texts = iter(self.tokenizer.decode([it.tokens for of_one in found for it in of_one]))
        of_line: list[list[list[Translation]]] = [[] for _ in self.lines]
        for key, hypotheses in zip(self.sentences, found, strict=True):
            numbers = words.get(key, [])
            of_line[key[0] - self.first].append(
                [self._translated(it, next(texts), numbers) for it in hypotheses]
            )
        return [
            self._whole(of_parts, is_cut=len(line) > LONGEST)
            for line, of_parts in zip(self.lines, of_line, strict=True)
        ]

    @property
    def _most(self) -> int:
        return self.request.settings.max_length

    def _divided(self, line: str) -> list[list[int]]:
        """Subwords of its parts; a character that has too many of them is divided as well."""
        return [
            ids[start : start + self._most]
            for ids in self.tokenizer.encode_source(self._cut(line))
            for start in range(0, len(ids), self._most)
        ]

    def _cut(self, line: str) -> list[str]:
        def fits(text: str) -> bool:
            return len(self.tokenizer.encode_source([text])[0]) <= self._most

        return [part for one in self._sentences(line) for part in split_line(one, fits)]

    def _sentences(self, line: str) -> list[str]:
        language = self.request.settings.sentences
        return [line] if language is None else split_sentences(line, language)

    def _source_words(self) -> dict[Key, list[int]]:
        """The number of the word, in its line, that each subword of a sentence belongs to."""
        words: dict[Key, list[int]] = {}
        for number, keys in groupby(self.sentences, key=lambda key: key[0]):
            line = self.lines[number - self.first][:LONGEST]
            numbers = iter(source_words(self.tokenizer, line, self._cut(line)))
            for key in keys:
                words[key] = list(islice(numbers, len(self.sentences[key].source) - 1))
        return words

    def _translated(self, hypothesis: Hypothesis, text: str, words: list[int]) -> Translation:
        pieces = self.tokenizer.target_pieces(hypothesis.tokens)
        found = Translation(text, hypothesis.score, pieces, not hypothesis.finished)
        if hypothesis.attention is None or not text.strip():
            return found
        from mtkit.decoding.alignment import Block

        at, offsets = Words(text).at, self.tokenizer.target_offsets(hypothesis.tokens)
        block = Block.of(hypothesis.attention, list(map(at, offsets)), words)
        return replace(found, blocks=(block,))

    def _whole(self, of_parts: list[list[Translation]], *, is_cut: bool) -> Translation:
        """The line of the parts: the best of each, then the second best of each, and so on.

        A part that has no more stays with its last. Where all have, NOTHING takes the room.
        """
        count = self.request.count
        wholes = [
            self._joined([ranked[min(k, len(ranked) - 1)] for ranked in of_parts])
            for k in range(max(map(len, of_parts), default=1))
        ]
        if is_cut:
            wholes = [replace(whole, truncated=True) for whole in wholes]
        if count > 1:
            wholes = list(unlike(wholes, lambda whole: whole.text))
            wholes += [NOTHING] * (count - len(wholes))
        return replace(wholes[0], n_best=wholes) if count > 1 else wholes[0]

    def _joined(self, parts: Sequence[Translation]) -> Translation:
        if len(parts) == 1:
            return parts[0]
        text = join_parts(part.text for part in parts)
        tokens = [token for part in parts for token in part.tokens]
        log_prob = sum(part.score * self._scale(part.tokens) for part in parts)
        return Translation(
            text,
            log_prob / self._scale(tokens),
            tokens,
            any(part.truncated for part in parts),
            blocks=tuple(_blocks(text, parts)) if self.request.attention else (),
        )

    def _scale(self, tokens: Sequence[str]) -> float:
        return float(max(len(tokens), 1) ** self.request.settings.length_penalty)


def _blocks(text: str, parts: Sequence[Translation]) -> Iterator[Block]:
    """Those of the parts, whose target words are counted in the whole text."""
    words = Words(text)
    for part, place in zip(parts, places(text, [part.text for part in parts]), strict=True):
        for block in part.blocks:
            yield replace(block, target=block.target + words.at(place))


def source_words(tokenizer: Tokenizer, line: str, parts: Sequence[str]) -> list[int]:
    """The number of the word of `line` that each subword of its parts, in order, belongs to."""
    words = Words(line)
    return [
        words.at(place + offset)
        for part, place in zip(parts, places(line, parts), strict=True)
        for offset in tokenizer.source_offsets(part)
    ]
