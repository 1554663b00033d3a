"""What every engine does: it takes sentences in order, and gives their hypotheses in a future."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mtkit.config.decoding import DecodingSettings, SamplingSettings
from mtkit.errors import UserError

if TYPE_CHECKING:  # numpy, which few translations need, takes as long as all the rest
    import numpy as np
    from jaxtyping import Float
ENGINE_NAMES = ("auto", "torch", "ctranslate2")


@dataclass(frozen=True)
class Sentence:
    """The subwords that the model translates at once."""

    source: list[int]
    """Subword ids, with EOS."""
    prefix: list[int] = field(default_factory=list)
    """Subword ids that every translation begins with.

    They count towards the length |y| and add log P = 0 to the score.
    """
    key: tuple[int, ...] = ()
    """Seeds its samples, together with the seed of the request."""
    words: list[int] = field(default_factory=list)
    """For alignments: the number of the word in its line that each subword belongs to."""


@dataclass(frozen=True)
class Request:
    """What to search for, the same for every sentence of a call."""

    settings: DecodingSettings
    n_best: int = 1
    """Number of hypotheses, at most the beam, or of samples."""
    sampling: SamplingSettings | None = None
    """Draw samples instead of searching for the best hypotheses."""
    attention: bool = False
    """Return the attention of each hypothesis, from which words are aligned."""
    scores: bool = True
    """Return scores. Without them CTranslate2's greedy search takes a tenth less time."""

    def __post_init__(self) -> None:
        if self.n_best < 1:
            raise UserError(f"n_best: {self.n_best}: must be at least 1")
        if self.sampling is None and self.n_best > self.settings.beam:
            raise UserError(
                f"n_best: {self.n_best} of a beam of {self.settings.beam}: raise the beam"
            )


@dataclass(frozen=True)
class EngineOptions:
    """Engine and hardware; "auto" and None are resolved when the engine is opened."""

    engine: str = "auto"
    compute_type: str = "auto"
    """Type of the numbers; auto: float32, so that the same command gives the same lines."""
    device: str = "auto"
    workers: int | None = None
    """Number of batches that are searched at the same time."""
    threads: int | None = None
    """Number of threads of each worker."""

    def __post_init__(self) -> None:
        if self.engine not in ENGINE_NAMES:
            raise UserError(f"engine: {self.engine}: choose one of {', '.join(ENGINE_NAMES)}")
        for name, count in (("workers", self.workers), ("threads", self.threads)):
            if count is not None and count < 1:
                raise UserError(f"{name}: {count}: must be at least 1")


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one sentence."""

    tokens: list[int]
    """Subword ids without EOS."""
    score: float | None
    """log P / |y|^alpha; None where the request asks for no scores."""
    finished: bool
    """Whether it ends in EOS; otherwise it was cut at `max_length`."""
    attention: Float[np.ndarray, "T S"] | None = field(default=None, compare=False)
    """Attention of each token to each source subword, without EOS, if it was asked for."""


NBestLists = list[list[Hypothesis]]
"""The hypotheses of each sentence, best first, or its samples as drawn; lists may be short."""


class Engine(ABC):
    """Searches for translations with one model or ensemble. Thread-safe."""

    name: str
    """The library and its compute type: what another run needs for the same output."""

    @abstractmethod
    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        """Start the search, and return the future of a list for each sentence, in order.

        The engine divides sentences into batches; the answers do not depend on it. Calls of several
        threads may share a batch unless they are to be `alone`. Cancelling the future stops the
        search as soon as the engine can.

        Raises:
            UserError: the engine cannot do what the request asks for.
        """

    @abstractmethod
    def close(self) -> None:
        """Wait for all searches, then free threads and memory."""
