"""A model, its tokenizer and its settings: lines of text in, as many lines of text out, in order.

What comes out for a line depends on that line, not on the lines around it. A line of white space
becomes an empty line without any model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.ahead import Ahead
from mtkit.decoding.contract import Engine, EngineOptions, Hypothesis, Key, Pending, Request
from mtkit.decoding.engines.load import load_engine
from mtkit.decoding.model import OpenedModel, open_model
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
        """Of the words of the line and of `text`; empty where it was not asked for."""
        from mtkit.decoding.alignment.alignment import Alignment

        return Alignment(self.blocks)


@dataclass(frozen=True)
class _Window:
    """Lines whose translations are being made."""

    lines: Sequence[str]
    first: int
    """Number of the first line."""
    parts: dict[Key, list[int]]
    pending: Pending


@contextmanager
def _cancelling(begun: Iterable[_Window]) -> Iterator[None]:
    """Whatever ends the block, of what is left in `begun` no more is begun."""
    try:
        yield
    finally:
        for window in begun:
            window.pending.cancel()


@dataclass
class Translator:
    """Translates lines as they are requested; any number of translators may share an engine."""

    engine: Engine
    tokenizer: Tokenizer
    request: Request
    identity: str = ""
    """The identity of the model, where it has one."""

    @classmethod
    def of(cls, opened: OpenedModel, request: Request, options: EngineOptions) -> Translator:
        """With an engine for the request; UserError as `load_engine`."""
        engine = load_engine(opened, options, request)
        return cls(engine, opened.tokenizer, request, opened.artifact.identity)

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,
        device: str = "auto",
        *,
        engine: str = "auto",
        compute_type: str = "auto",
        workers: int | None = None,
        threads: int | None = None,
        **changes: int | float | None,
    ) -> Translator:
        """The model of a run or a model folder; `changes` replace its own decoding settings.

        Without a path: $MTKIT_MODEL, else the last run of this directory. The other options are
        those of `EngineOptions`. Raises UserError where there is no model, or a damaged one, for
        settings that cannot be, and for an engine that cannot honour them.
        """
        opened = open_model(path, changes)
        options = EngineOptions(engine, compute_type, device, workers, threads)
        return cls.of(opened, Request(opened.config.decoding), options)

    @property
    def settings(self) -> DecodingSettings:
        return self.request.settings

    def translate(self, lines: Sequence[str]) -> list[str]:
        """The best translation of each line."""
        return [translation.text for window in self.stream([lines]) for translation in window]

    def stream(
        self, windows: Iterable[Sequence[str]], *, first: int = 0
    ) -> Iterator[list[Translation]]:
        """For each window of lines its translations; while they are made, one more is read.

        `first` is the number of the first line, from 0, which samples depend on. Raises UserError
        where the engine cannot do what is requested.
        """
        begun: deque[_Window] = deque()
        with closing(Ahead(windows)) as coming, _cancelling(begun):
            for lines in coming:
                parts = self._parts(lines, first)
                begun.append(_Window(lines, first, parts, self.engine.submit(parts, self.request)))
                first += len(lines)
                if len(begun) > 1:
                    yield self._first_of(begun)
                while begun and not coming.is_soon():  # nobody waits for lines that may never come
                    yield self._first_of(begun)
            while begun:
                yield self._first_of(begun)

    def _first_of(self, begun: deque[_Window]) -> list[Translation]:
        """The translations of the first window, which is done with then."""
        window = begun[0]
        words = self._words(window) if self.request.attention else {}
        of_line: list[list[list[Translation]]] = [[] for _ in window.lines]
        for key, hypotheses in zip(window.parts, window.pending.wait(), strict=True):
            of_line[key[0] - window.first].append(self._texts(hypotheses, words.get(key, [])))
        begun.popleft()
        return [
            self._whole(of_parts, self.request.count, is_cut=len(line) > LONGEST)
            for line, of_parts in zip(window.lines, of_line, strict=True)
        ]

    def _parts(self, lines: Sequence[str], first: int) -> dict[Key, list[int]]:
        """What the model is to read, by number of line and of part; nothing of white space."""
        texts = {first + i: line[:LONGEST] for i, line in enumerate(lines) if line.strip()}
        parts: dict[Key, list[int]] = {}
        encoded = self.tokenizer.encode_source(list(texts.values()))
        for (number, line), ids in zip(texts.items(), encoded, strict=True):
            pieces = [ids] if self._fits(ids) else self._split(line)
            parts |= {(number, index): [*ids, EOS] for index, ids in enumerate(pieces) if ids}
        return parts

    def _split(self, line: str) -> list[list[int]]:
        """Subwords of its parts; a character that has too many of them is split as well."""
        most = self.settings.max_length
        parts = self.tokenizer.encode_source(self._cut(line))
        return [ids[start : start + most] for ids in parts for start in range(0, len(ids), most)]

    def _cut(self, line: str) -> list[str]:
        return split_line(line, lambda text: self._fits(self.tokenizer.encode_source([text])[0]))

    def _words(self, window: _Window) -> dict[Key, list[int]]:
        """The number of the word, in its line, that each subword of a part belongs to."""
        from mtkit.decoding.aligning import source_words

        words: dict[Key, list[int]] = {}
        for number, keys in groupby(window.parts, key=lambda key: key[0]):
            line = window.lines[number - window.first][:LONGEST]
            numbers = iter(source_words(self.tokenizer, line, self._cut(line)))
            words |= {key: list(islice(numbers, len(window.parts[key]) - 1)) for key in keys}
        return words

    def _fits(self, ids: list[int]) -> bool:
        return len(ids) <= self.settings.max_length

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

    def _whole(
        self, of_parts: list[list[Translation]], n_best: int, *, is_cut: bool
    ) -> Translation:
        """The line of the parts: the best of each, then the second best of each, and so on."""
        wholes = [self._joined([ranked[k] for ranked in of_parts]) for k in range(n_best)]
        if is_cut:
            wholes = [replace(whole, truncated=True) for whole in wholes]
        return replace(wholes[0], n_best=wholes) if n_best > 1 else wholes[0]

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
        return float(max(len(tokens), 1) ** self.settings.length_penalty)


load = Translator.load


def _joined_blocks(text: str, parts: Sequence[Translation]) -> tuple[Block, ...]:
    if not any(part.blocks for part in parts):
        return ()
    from mtkit.decoding.aligning import join_alignments

    return join_alignments(text, [(part.text, part.alignment) for part in parts]).blocks
