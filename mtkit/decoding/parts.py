"""Lines as parts that a model can read, and translations of the parts as those of the lines.

A line of white space has no part. A line of more subwords than `max_length` has several, whose
translations are joined; what was given as the prefix of such a line begins its first part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING

from mtkit.decoding.contract import Hypothesis, Key, Request, Sentence
from mtkit.decoding.splitting import LONGEST, join_parts, split_line
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.symbols import EOS

if TYPE_CHECKING:  # numpy, which few translations need, takes as long as all the rest
    from mtkit.decoding.alignment.alignment import Alignment, Block


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
    """What its alignment is made of, where it was asked for."""

    @property
    def alignment(self) -> Alignment:
        """The alignment of the words of the line and of `text`; empty where it was not wanted."""
        from mtkit.decoding.alignment.alignment import Alignment

        return Alignment(self.blocks)


@dataclass(frozen=True)
class Window:
    """Lines that are translated together."""

    lines: Sequence[str]
    first: int
    """The number of the first line."""
    sentences: dict[Key, Sentence]
    """What the model reads: the parts of all lines, by number of line and of part."""


@dataclass(frozen=True)
class Parts:
    """Divides lines, and joins what becomes of their parts."""

    tokenizer: Tokenizer
    request: Request

    def split(self, lines: Sequence[str], prefixes: Sequence[str], first: int) -> Window:
        """`prefixes`: for each line, how its translation begins; blank where nothing is given."""
        texts = {first + i: line[:LONGEST] for i, line in enumerate(lines) if line.strip()}
        sources = self.tokenizer.encode_source(list(texts.values()))
        begun = self.tokenizer.encode_target([prefixes[number - first] for number in texts])
        sentences: dict[Key, Sentence] = {}
        for (number, line), ids, prefix in zip(texts.items(), sources, begun, strict=True):
            given = prefix[: self._most]
            for index, part in enumerate([ids] if self._fits(ids) else self._divided(line)):
                if part:
                    sentences[number, index] = Sentence([*part, EOS], given)
                    given = []
        return Window(lines, first, sentences)

    def join(self, window: Window, found: Sequence[list[Hypothesis]]) -> list[Translation]:
        """The translation of each line, of what was found for each sentence of the window."""
        words = self._words(window) if self.request.attention else {}
        of_line: list[list[list[Translation]]] = [[] for _ in window.lines]
        for key, hypotheses in zip(window.sentences, found, strict=True):
            of_line[key[0] - window.first].append(self._texts(hypotheses, words.get(key, [])))
        return [
            self._whole(of_parts, is_cut=len(line) > LONGEST)
            for line, of_parts in zip(window.lines, of_line, strict=True)
        ]

    @property
    def _most(self) -> int:
        return self.request.settings.max_length

    def _fits(self, ids: list[int]) -> bool:
        return len(ids) <= self._most

    def _divided(self, line: str) -> list[list[int]]:
        """Subwords of its parts; a character that has too many of them is divided as well."""
        parts = self.tokenizer.encode_source(self._cut(line))
        return [
            ids[start : start + self._most]
            for ids in parts
            for start in range(0, len(ids), self._most)
        ]

    def _cut(self, line: str) -> list[str]:
        return split_line(line, lambda text: self._fits(self.tokenizer.encode_source([text])[0]))

    def _words(self, window: Window) -> dict[Key, list[int]]:
        """The number of the word, in its line, that each subword of a part belongs to."""
        from mtkit.decoding.aligning import source_words

        words: dict[Key, list[int]] = {}
        for number, keys in groupby(window.sentences, key=lambda key: key[0]):
            line = window.lines[number - window.first][:LONGEST]
            numbers = iter(source_words(self.tokenizer, line, self._cut(line)))
            for key in keys:
                words[key] = list(islice(numbers, len(window.sentences[key].source) - 1))
        return words

    def _texts(self, hypotheses: list[Hypothesis], source_words: list[int]) -> list[Translation]:
        """The hypotheses of a part, as text."""
        texts = self.tokenizer.decode([hypothesis.tokens for hypothesis in hypotheses])
        return [
            Translation(
                text,
                hypothesis.score,
                self.tokenizer.target_pieces(hypothesis.tokens),
                not hypothesis.finished,
                blocks=self._aligned(hypothesis, text, source_words),
            )
            for hypothesis, text in zip(hypotheses, texts, strict=True)
        ]

    def _aligned(
        self, hypothesis: Hypothesis, text: str, source_words: list[int]
    ) -> tuple[Block, ...]:
        if hypothesis.attention is None:
            return ()
        from mtkit.decoding.aligning import align_hypothesis

        return align_hypothesis(self.tokenizer, hypothesis, text, source_words).blocks

    def _whole(self, of_parts: list[list[Translation]], *, is_cut: bool) -> Translation:
        """The line of the parts: the best of each, then the second best of each, and so on."""
        count = self.request.count
        wholes = [self._joined([ranked[k] for ranked in of_parts]) for k in range(count)]
        if is_cut:
            wholes = [replace(whole, truncated=True) for whole in wholes]
        return replace(wholes[0], n_best=wholes) if count > 1 else wholes[0]

    def _joined(self, parts: Sequence[Translation]) -> Translation:
        if len(parts) == 1:
            return parts[0]
        tokens = [token for part in parts for token in part.tokens]
        log_prob = sum(part.score * self._scale(part.tokens) for part in parts)
        text = join_parts(part.text for part in parts)
        return Translation(
            text,
            log_prob / self._scale(tokens),
            tokens,
            any(part.truncated for part in parts),
            blocks=_joined_blocks(text, parts),
        )

    def _scale(self, tokens: Sequence[str]) -> float:
        return float(max(len(tokens), 1) ** self.request.settings.length_penalty)


def _joined_blocks(text: str, parts: Sequence[Translation]) -> tuple[Block, ...]:
    if not any(part.blocks for part in parts):
        return ()
    from mtkit.decoding.aligning import join_alignments

    return join_alignments(text, [(part.text, part.alignment) for part in parts]).blocks
