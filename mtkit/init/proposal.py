"""The options of `init`, and the interface of what it proposes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtkit.artifacts.runs import unused_run
from mtkit.config.corpora import Corpus
from mtkit.corpus.read import Pair
from mtkit.corpus.statistics import Languages
from mtkit.init.config_text import Sections
from mtkit.init.facts import CorpusFacts
from mtkit.init.survey import WrittenCorpus


@dataclass(frozen=True)
class InitOptions:
    """What the user asks for."""

    corpora: Sequence[Corpus]
    """One corpus; or several with a target tag each, for several languages in one model."""
    minutes: float
    output: Path
    command: str
    """The command line, for the first line of the config."""
    languages: Languages = (None, None)
    run: str | None = None
    existing: Mapping[str, Corpus] = field(default_factory=dict)
    """Validation and test sets of the user, by part; these are not held out."""
    base: str | None = None
    """The model to adapt; None: train a new one."""
    keep: Corpus | None = None
    """Text that an adapted model must not translate worse."""
    new_vocabulary: bool = False
    """Whether the vocabulary of the base model grows by subwords of the new text."""
    force: bool = False

    @property
    def run_folder(self) -> str:
        """The run directory: by default one that has the name of the config and is not used yet."""
        return self.run or str(unused_run(self.default_run))

    @property
    def default_run(self) -> Path:
        """The run directory that has the name of the config."""
        return Path("runs") / self.output.stem

    @property
    def folder(self) -> Path:
        """The folder for the training, validation and test files."""
        return self.output.with_name(f"{self.output.stem}-data")


class Proposal(ABC):
    """What `init` proposes for a corpus."""

    @property
    def old_text(self) -> Sequence[Pair]:
        """Text that the model must not translate worse; empty, as a new model can forget none."""
        return ()

    @property
    def replayed(self) -> Sequence[dict[str, Any]]:
        """Old corpora to train on beside the new ones, as settings with weights."""
        return ()

    @abstractmethod
    def __str__(self) -> str:
        """Return which model is trained, in words."""

    @abstractmethod
    def settings(self, facts: CorpusFacts) -> Sections:
        """Return all sections except `data`; their comments name the counts of `facts`."""

    @abstractmethod
    def forecast(
        self, facts: CorpusFacts, written: Sequence[WrittenCorpus], minutes: float
    ) -> Iterator[str]:
        """Say how long a run will take, and what is known of its result."""
