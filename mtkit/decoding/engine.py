"""The interface of every engine, and its input and output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mtkit.config.decoding import DecodingSettings, SamplingSettings
from mtkit.errors import UserError

if TYPE_CHECKING:  # few translations need numpy, whose import takes as long as all others
    import numpy as np
    from jaxtyping import Float
MAX_THREADS = 1024
"""Largest number of workers and of threads; CTranslate2 aborts with far larger ones."""
ENGINE_NAMES = ("auto", "torch", "ctranslate2")


@dataclass(frozen=True)
class Sentence:
    """A piece of text that the model translates as one sequence: a sentence, a line, or a part."""

    source: list[int]
    """Subword ids, with EOS."""
    prefix: list[int] = field(default_factory=list)
    """Subword ids that every translation begins with; they count in |y| and have log P = 0."""
    key: tuple[int, ...] = ()
    """Seed of the samples of this sentence, together with the seed of the request."""
    words: list[int] = field(default_factory=list)
    """For alignments: for each subword, the number of its word in the line."""


@dataclass(frozen=True)
class Request:
    """The kind of search, equal for all sentences of a call."""

    settings: DecodingSettings
    n_best: int = 1
    """Number of hypotheses (at most the beam) or of samples for each sentence."""
    sampling: SamplingSettings | None = None
    """Settings of sampling; None: search for the best hypotheses."""
    alignments: bool = False
    """Whether hypotheses contain their attention weights, from which words are aligned."""
    scores: bool = True
    """Whether hypotheses have scores. Without scores greedy CTranslate2 takes a tenth less time."""

    def __post_init__(self) -> None:
        if self.n_best < 1:
            raise UserError(f"n_best must be at least 1, not {self.n_best}")
        if self.sampling is None and self.n_best > self.settings.beam:
            raise UserError(f"n_best: {self.n_best} exceeds the beam of {self.settings.beam}")


@dataclass(frozen=True)
class EngineOptions:
    """Choice of engine and hardware; the engine replaces "auto" and None when it opens."""

    engine: str = "auto"
    compute_type: str = "auto"
    """Type of numbers; auto means float32, for the same output everywhere."""
    device: str = "auto"
    workers: int | None = None
    """Number of batches that are searched in parallel."""
    threads: int | None = None
    """Number of threads of each worker."""

    def __post_init__(self) -> None:
        if self.engine not in ENGINE_NAMES:
            raise UserError(f"engine: {self.engine}; choose one of {', '.join(ENGINE_NAMES)}")
        for name, count in (("workers", self.workers), ("threads", self.threads)):
            if count is not None and not 1 <= count <= MAX_THREADS:
                raise UserError(f"{name} must be from 1 to {MAX_THREADS:,}, not {count:,}")


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one sentence."""

    tokens: list[int]
    """Subword ids without EOS."""
    score: float | None
    """log P / |y|^alpha; None if the request asks for no scores."""
    finished: bool
    """Whether the hypothesis ended in EOS; otherwise it was cut at `max_length`."""
    attention: Float[np.ndarray, "T S"] | None = field(default=None, compare=False)
    """Attention of each token to each source subword but EOS, if requested."""


NBestLists = list[list[Hypothesis]]
"""For each sentence, its hypotheses from best to worst, or its samples; lists can be short."""


class Engine(ABC):
    """A model or ensemble that searches for translations. Thread-safe."""

    name: str
    """Library and compute type, such as "torch float32"."""

    @abstractmethod
    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        """Start the search; the future's result has one list per sentence, in the same order.

        Calls with equal requests may share batches, unless they are `alone`. Answers do not depend
        on batches. Cancelling the future stops the search as soon as possible.

        Raises:
            UserError: the engine does not support the request.
        """

    @abstractmethod
    def close(self) -> None:
        """Wait for all searches, then release threads and memory."""
