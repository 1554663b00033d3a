"""The interface of every engine, and its input and output."""

from __future__ import annotations

import difflib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field

from mtkit.config.base import Settings, validated
from mtkit.config.decoding import DecodingSettings, SamplingSettings
from mtkit.decoding.glossary import Glossary, open_glossary
from mtkit.decoding.loops import LoopJudge
from mtkit.errors import MtkitError, UserError
from mtkit.tokenizer.codec import Tokenizer

if TYPE_CHECKING:  # few translations need numpy; importing it takes as long as all else
    import numpy as np
    from jaxtyping import Float

Threads = Annotated[int, Field(ge=1, le=1024)]
"""A number of workers or threads; CTranslate2 aborts with far larger numbers."""
_Section = TypeVar("_Section", DecodingSettings, SamplingSettings)


SentenceKind = tuple[bool, bool]
"""Whether a sentence has a prefix, and whether it needs attention (see `Sentence.kind`)."""


@dataclass(frozen=True)
class Sentence:
    """Text that the model translates as one sequence: a sentence, a line, or part of a sentence."""

    source: list[int]
    """Subword ids, with EOS."""
    prefix: list[int] = field(default_factory=list)
    """Subword ids that every translation begins with; they count in |y| and have log P = 0."""
    key: tuple[int, ...] = ()
    """Seed for sampling this sentence, in addition to the seed of the request."""
    needs_attention: bool = False
    """Whether hypotheses contain their attention weights, if the model has any."""
    judge: LoopJudge | None = field(default=None, compare=False, repr=False)
    """Says whether the sentence is searched again; None: it is not."""

    @property
    def kind(self) -> SentenceKind:
        """Whether it has a prefix, and needs attention: both change how a batch is searched.

        So a batch has sentences of one kind, and no sentence depends on others.
        """
        return bool(self.prefix), self.needs_attention


REQUEST_SETTINGS = ("n_best", "alignments", "scores", "sample", "glossary")
"""Settings of `Request.changed` that are in no section of a config."""


@dataclass(frozen=True)
class Request:
    """What to search for; the same for all sentences of a call."""

    settings: DecodingSettings
    n_best: int = 1
    """Number of hypotheses (at most the beam) or of samples for each sentence."""
    sampling: SamplingSettings | None = None
    """Settings of sampling; None: search for the best hypotheses."""
    alignments: bool = False
    """Whether hypotheses contain their attention weights, from which words are aligned."""
    scores: bool = True
    """Whether hypotheses have scores; without, CTranslate2 takes 10 % less time with beam 1."""
    search_again: bool = True
    """Whether sentences whose translation has a fault are searched again."""
    glossary: Glossary | None = field(default=None, compare=False)
    """Terms and their translations; requests that differ in nothing else share batches."""

    def __post_init__(self) -> None:
        if self.n_best < 1:
            raise UserError(f"n_best must be at least 1, not {self.n_best}")
        if self.sampling is None and self.n_best > self.settings.beam:
            raise UserError(f"n_best: {self.n_best} exceeds the beam of {self.settings.beam}")

    def changed(self, **settings: Any) -> Request:
        """Return the request with some settings changed; None changes nothing.

        Settings are `n_best` (translations per line), `alignments` (between words), `scores` (False
        saves time), `sample` (at random), `glossary` (a path, or a dictionary of terms and their
        translations; {} turns a glossary off), and all fields of `DecodingSettings` and
        `SamplingSettings`.

        Raises:
            TypeError: the glossary is neither a path nor a dictionary.
            UserError: a setting is unknown or invalid.
        """
        check_names(settings)
        changes = {name: value for name, value in settings.items() if value is not None}
        fields = {name: changes.pop(name) for name in REQUEST_SETTINGS if name in changes}
        if "glossary" in fields:
            fields["glossary"] = open_glossary(fields["glossary"])
        is_sampled = fields.pop("sample", self.sampling is not None)
        sampling_names = changes.keys() & SamplingSettings.model_fields.keys()
        if sampling_names and not is_sampled:
            raise UserError(f"{min(sampling_names)} needs sample=True")
        sampling = None
        if is_sampled:
            sampling = _change(self.sampling or SamplingSettings(), changes)
        decoding = _change(self.settings, changes)
        return replace(self, settings=decoding, sampling=sampling, **fields)


def _change(section: _Section, changes: Mapping[str, Any]) -> _Section:
    """Return the section with those changes that belong to it."""
    values = section.model_dump()
    for name, value in changes.items():
        if name in values:
            values[name] = value
    return validated(type(section), values)


def check_names(settings: Mapping[str, Any], others: Iterable[str] = ()) -> None:
    """Raise UserError if a setting is unknown, and suggest the name that was probably meant."""
    names = [
        *REQUEST_SETTINGS,
        *DecodingSettings.model_fields,
        *SamplingSettings.model_fields,
        *others,
    ]
    for name in settings:
        if name in names:
            continue
        similar = [known for known in names if known in name]  # such as beam in beam_size
        similar = similar or difflib.get_close_matches(name, names)  # misspelled
        hint = f"choose from {', '.join(names)}"
        if similar:
            hint = f"did you mean '{similar[0]}'?"
        raise UserError(f"{name}: unknown setting; {hint}")


class EngineOptions(Settings):
    """Choice of engine and hardware; an engine replaces "auto" and None by its own choice."""

    engine: Literal["auto", "torch", "ctranslate2"] = "auto"
    compute_type: str = "auto"
    """Type of numbers; auto means float32, so that all machines give the same output."""
    device: str = "auto"
    workers: Threads | None = None
    """Number of batches that are searched in parallel."""
    threads: Threads | None = None
    """Number of threads of each worker."""


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
    """Attention of each token to each source subword except EOS, if requested."""
    replaces_loop: bool = False
    """Whether it is the result of a second search."""


NBestLists = list[list[Hypothesis]]
"""For each sentence its hypotheses, best first, or its samples; maybe fewer than requested."""


def find_whole(hypotheses: Sequence[Hypothesis], tokenizer: Tokenizer) -> Sequence[Hypothesis]:
    """Return the hypotheses without incomplete characters; all of them if there are none."""
    whole = [each for each in hypotheses if tokenizer.is_whole(each.tokens)]
    return whole or hypotheses


class Lifetime:
    """The time in which an engine can be used: until it is closed, in the process that opened it.

    A forked child has a copy of the engine, but no copy of its threads.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        """The lock of the engine's state."""
        self._process = os.getpid()
        self._is_closed = False

    @property
    def is_in_child(self) -> bool:
        """Whether this process is a forked child of the process that opened the engine."""
        return os.getpid() != self._process

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock during a call of the engine.

        Raises:
            MtkitError: the engine is closed, or this process is a forked child.
        """
        # Before the lock: another thread may have held it during the fork, so the child's copy may
        # be locked for ever.
        if self.is_in_child:
            raise MtkitError(
                "this translator was loaded before the process was forked; load the model in the "
                "child process"
            )
        with self.lock:
            if self._is_closed:
                raise MtkitError("this translator is closed; load the model again")
            yield

    def end(self) -> None:
        """Refuse all later calls."""
        with self.lock:
            self._is_closed = True


class Engine(ABC):
    """A model or ensemble that searches for translations. Thread-safe."""

    name: str
    """Library and compute type, such as "torch float32"."""

    @abstractmethod
    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        """Start the search; the future's result has one list per sentence, in the same order.

        Calls with equal requests may share batches, unless `alone` is true; this does not change
        hypotheses. Cancelling the future stops the search as soon as possible. Either all sentences
        have terms or none has, because not every engine can search for terms.

        Raises:
            UserError: the engine does not support the request.
            MtkitError: the engine is closed, or was opened before this process was forked.
        """

    @abstractmethod
    def close(self) -> None:
        """Refuse new searches, wait for all others, then release threads and memory.

        In a forked child, do nothing: the threads are those of the parent process.
        """
