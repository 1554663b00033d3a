"""What is wanted of a translation, and what every engine does: sentences in, hypotheses out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from mtkit.config.decoding import DecodingSettings, SamplingSettings
from mtkit.errors import UserError

if TYPE_CHECKING:  # numpy, which few translations need, takes as long as all the rest
    import numpy as np
    from jaxtyping import Float

Key = tuple[int, ...]
"""What tells a sentence from all others: the number of its line, and of the part of the line."""


@dataclass(frozen=True)
class Sentence:
    """What is translated at once."""

    source: list[int]
    """Subword ids, with EOS."""
    prefix: list[int] = field(default_factory=list)
    """Subword ids that every translation of it begins with.

    They count in |y| as all others do, but cost nothing: P of what is given is 1.
    """


@dataclass(frozen=True)
class Request:
    """What is wanted of every sentence."""

    settings: DecodingSettings
    count: int = 1
    """Number of hypotheses or samples of each sentence; of hypotheses not more than the beam."""
    sampling: SamplingSettings | None = None
    """With it, samples in the order drawn instead of the best hypotheses."""
    attention: bool = False
    """Whether hypotheses carry their attention."""
    scores: bool = True
    """Whether somebody reads scores: greedy search takes a tenth less time without."""

    def __post_init__(self) -> None:
        if self.sampling is None and self.count > self.settings.beam:
            beam = self.settings.beam
            raise UserError(f"n_best: {self.count} of a beam of {beam}: raise the beam")


@dataclass(frozen=True)
class EngineOptions:
    """Which engine, and on what it runs; None and auto are for us to decide."""

    engine: str = "auto"
    compute_type: str = "auto"
    """auto: float32, whatever other conversions there are: the same command, the same lines."""
    device: str = "auto"
    workers: int | None = None
    """Number of batches that are searched side by side."""
    threads: int | None = None
    """Number of threads of each worker."""

    def __post_init__(self) -> None:
        for name, count in (("workers", self.workers), ("threads", self.threads)):
            if count is not None and count < 1:
                raise UserError(f"{name}: {count}: has to be at least 1")


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one sentence."""

    tokens: list[int]
    """Subword ids without EOS."""
    score: float
    """log P / |y|^alpha; -inf where a sentence has fewer hypotheses than were asked for.

    Of a request without scores it may be nan.
    """
    finished: bool
    """Whether it ended in EOS, rather than at `max_length`."""
    attention: Float[np.ndarray, "T S"] | None = field(default=None, compare=False)
    """Attention of each token to each subword of the source, EOS left out; where asked for."""


NO_HYPOTHESIS = Hypothesis([], -math.inf, False)
"""Stands where a sentence has fewer than were asked for."""
Found = list[list[Hypothesis]]
"""For each sentence `count` hypotheses, best first."""


@dataclass(frozen=True)
class Pending:
    """What was submitted to an engine."""

    wait: Callable[[], Found]
    """What was found, once it is there."""
    cancel: Callable[[], None]
    """Nobody will wait: what has not begun never does, and what has ends as soon as it can."""


class Engine(ABC):
    """Searches with one model; any number of translators may share it."""

    name: str
    """The library and its type of numbers: what another run needs for the same outputs."""

    @abstractmethod
    def submit(self, sentences: Mapping[Key, Sentence], request: Request) -> Pending:
        """Begins with any number of sentences, none empty.

        How they are divided into batches is up to the engine; the answers do not depend on it.
        Raises UserError for what it cannot do.
        """


def in_batches(sentences: Mapping[Key, Sentence], most: int) -> Iterator[dict[Key, Sentence]]:
    """The sentences: as many to a batch as `most` tokens have room for, with padding.

    The longest come first, so that searches side by side end at about the same time.
    """
    ranked = sorted(sentences.items(), key=lambda item: -len(item[1].source))
    first = 0
    while first < len(ranked):
        end = first + max(1, most // len(ranked[first][1].source))
        yield dict(ranked[first:end])
        first = end


def begin(
    pool: Executor,
    search: Callable[[dict[Key, Sentence]], Found],
    batches: Sequence[dict[Key, Sentence]],
    keys: Sequence[Key],
) -> Pending:
    """Has the batches searched in threads of the pool; what is found is in the order of `keys`."""
    futures = [pool.submit(search, batch) for batch in batches]

    def wait() -> Found:
        flatten = chain.from_iterable
        found = flatten(future.result() for future in futures)
        by_key = dict(zip(flatten(batches), found, strict=True))
        return [by_key[key] for key in keys]

    def cancel() -> None:
        for future in futures:
            future.cancel()

    return Pending(wait, cancel)
