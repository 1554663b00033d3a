"""What every engine does: sentences in as subword ids, their hypotheses out, best first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mtkit.config.decoding import DecodingSettings, SamplingSettings

if TYPE_CHECKING:  # numpy, which few translations need, takes as long as all the rest
    import numpy as np
    from jaxtyping import Float

Key = tuple[int, ...]
"""What tells a sentence from all others: the number of its line, and of the part of the line."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one sentence."""

    tokens: list[int]
    """Subword ids without EOS."""
    score: float
    """log P / |y|^alpha; -inf where a sentence has fewer hypotheses than were asked for."""
    finished: bool
    """Whether it ended in EOS, rather than at `max_length`."""
    attention: Float[np.ndarray, "T S"] | None = field(default=None, compare=False)
    """Of each token to each subword of the source, EOS left out; where asked for."""


@dataclass(frozen=True)
class Search:
    """What is asked for each sentence."""

    settings: DecodingSettings
    count: int = 1
    """Hypotheses or samples of each; of hypotheses not more than the beam."""
    sampling: SamplingSettings | None = None
    """With it, samples in the order drawn instead of the best."""
    attention: bool = False
    """Whether hypotheses carry theirs."""


@runtime_checkable
class Pending(Protocol):
    """What was submitted to an engine."""

    def wait(self) -> list[list[Hypothesis]]:
        """For each sentence `count` hypotheses, once they are there."""

    def cancel(self) -> None:
        """Nobody will wait: what has not begun never does."""


class Engine(ABC):
    """Searches with one model; any number of translators may share it."""

    name: str
    """The library and its type of numbers: what another run needs for the same outputs."""

    @abstractmethod
    def submit(self, sentences: Mapping[Key, list[int]], search: Search) -> Pending:
        """Begins with any number of sentences, none empty, each with its EOS.

        How they are divided into batches is up to the engine; the answers do not depend on it.

        Raises UserError for what this engine cannot do.
        """


def in_batches(sentences: Mapping[Key, list[int]], most: int) -> Iterator[list[Key]]:
    """Sentences of like length: as many as `most` tokens have room for, padding included.

    The longest come first, so that searches side by side end at about the same time.
    """
    batch: list[Key] = []
    for key in sorted(sentences, key=lambda key: -len(sentences[key])):
        if batch and (len(batch) + 1) * len(sentences[batch[0]]) > most:
            yield batch
            batch = []
        batch.append(key)
    if batch:
        yield batch
