"""Lines as parts that a model can read, and translations of the parts as those of the lines.

A line of white space has no part. A line of more subwords than `max_length` has several, and so has
one of several sentences where they are to be translated one by one. Their translations are joined;
what was given as the prefix of such a line begins its first part. Where no prefix is given, emoji
that the model cannot read are parts that stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING

from mtkit.decoding.casing import Run, runs_of, truecase
from mtkit.decoding.distinct import unlike
from mtkit.decoding.engine import Found, Hypothesis, Key, Request, Sentence
from mtkit.decoding.sentences import LONGEST, Words, join_parts, places, split_line, split_sentences
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import Tokenizer

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
        from mtkit.decoding.alignment import shares_of

        return shares_of(self.blocks)


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
        return {key: part for key, part in self._parts.items() if isinstance(part, Sentence)}

    def join(self, found: Found) -> list[Translation]:
        """The translation of each line, of what was found for each sentence."""
        words = self._source_words() if self.request.attention else {}
        texts = iter(self.tokenizer.decode([it.tokens for of_one in found for it in of_one]))
        of_sentence = dict(zip(self.sentences, found, strict=True))
        of_line: list[list[list[Translation]]] = [[] for _ in self.lines]
        for key, part in self._parts.items():
            translations = [
                self._translated(it, next(texts), words.get(key, []))
                for it in of_sentence.get(key, [])
            ]
            kept = [Translation(part, 0.0, [], False)] if isinstance(part, str) else translations
            of_line[key[0] - self.first].append(kept)
        return [self._whole(i, of_parts) for i, of_parts in enumerate(of_line)]

    @cached_property
    def _texts(self) -> dict[int, str]:
        """Each line that is not blank, as the model reads it, by its place in the window."""
        texts = {i: line[:LONGEST] for i, line in enumerate(self.lines) if line.strip()}
        if not self.request.settings.truecase:
            return texts
        return {
            i: text if self.prefixes[i].strip() else truecase(text, self.tokenizer)
            for i, text in texts.items()
        }

    @cached_property
    def _parts(self) -> dict[Key, Sentence | str]:
        """The parts of all lines: what is translated, and what stays."""
        sources = self.tokenizer.encode_source(list(self._texts.values()))
        prefixes = self.tokenizer.encode_target([self.prefixes[i] for i in self._texts])
        parts: dict[Key, Sentence | str] = {}
        for i, ids, prefix in zip(self._texts, sources, prefixes, strict=True):
            given = prefix[: self._most]
            is_whole = len(ids) <= self._most and self._runs(i) == [(self._texts[i], True)]
            for part, piece in enumerate([ids] if is_whole else self._divided(i)):
                if isinstance(piece, str):
                    parts[self.first + i, part] = piece
                elif piece:
                    parts[self.first + i, part] = Sentence([*piece, EOS], given)
                    given = []
        return parts

    @property
    def _most(self) -> int:
        return self.request.settings.max_length

    def _divided(self, i: int) -> list[list[int] | str]:
        """Subwords of its parts; a character that has too many of them is divided as well."""
        found: list[list[int] | str] = []
        for text, is_read in self._cut(i):
            if is_read:
                ids = self.tokenizer.encode_source([text])[0]
                found += [ids[at : at + self._most] for at in range(0, len(ids), self._most)]
            else:
                found.append(text)
        return found

    def _cut(self, i: int) -> list[Run]:
        def fits(text: str) -> bool:
            return len(self.tokenizer.encode_source([text])[0]) <= self._most

        return [
            (part, is_read)
            for text, is_read in self._runs(i)
            for part in (split_line(text, fits) if is_read else [text])
        ]

    def _runs(self, i: int) -> list[Run]:
        text, language = self._texts[i], self.request.settings.sentences
        if self.prefixes[i].strip():
            return [(sentence, True) for sentence in split_sentences(text, language)]
        return runs_of(text, language, self.tokenizer)

    def _source_words(self) -> dict[Key, list[int]]:
        """The number of the word, in its line, that each subword of a sentence belongs to."""
        words: dict[Key, list[int]] = {}
        for number, keys in groupby(self.sentences, key=lambda key: key[0]):
            i = number - self.first
            read = [text for text, is_read in self._cut(i) if is_read]
            numbers = iter(source_words(self.tokenizer, self._texts[i], read))
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

    def _whole(self, i: int, of_parts: list[list[Translation]]) -> Translation:
        """The line of the parts: the best of each, then the second best of each, and so on.

        A part that has no more stays with its last. Where all have, NOTHING takes the room.
        """
        count, line = self.request.count, self.lines[i]
        wholes = [
            self._joined([ranked[min(k, len(ranked) - 1)] for ranked in of_parts])
            for k in range(max(map(len, of_parts), default=1))
        ]
        if line.isupper() and self._texts[i] != line[:LONGEST]:
            wholes = [replace(whole, text=whole.text.upper()) for whole in wholes]
        if len(line) > LONGEST:
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
