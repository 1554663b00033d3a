"""How a run chooses its final weights, and what it says about the model that it starts from.

The core keeps the trained weights. An extra for `training.max_harm` limits what old text loses: its
entry point names a subclass of `FineTuning`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from mtkit.artifacts.manifest import Artifact
from mtkit.config.settings import Config
from mtkit.corpus.read import Pair
from mtkit.decoding.estimation.estimator import Estimator
from mtkit.plugins import load_plugin
from mtkit.training.candidates import Candidate
from mtkit.training.setup import RunInputs, TrainingRun
from mtkit.training.state import TrainState


@dataclass(frozen=True)
class ModelContent:
    """What the model of a run is made of."""

    inputs: RunInputs
    """Their tokenizer is that of the model."""
    weights: dict[str, Tensor]
    estimator: Estimator


@dataclass(frozen=True)
class Ending:
    """The weights that become the model of a run, and why."""

    best: Candidate
    report: Mapping[str, Any] = field(default_factory=dict)
    """What the report of the model says about the choice."""
    base: ModelContent | None = None
    """The base model, if the run ends with it and it has another vocabulary than the run."""


class FineTuning:
    """What a run does about the model that it starts from; this class keeps the trained weights."""

    def end(self, run: TrainingRun, state: TrainState, trained: Candidate) -> Ending:
        """Choose the weights that the run ends with; all processes call this."""
        return Ending(trained)

    def translate_with_base_model(
        self, config: Config, model: Artifact, pairs: Sequence[Pair]
    ) -> list[str] | None:
        """Translate test lines with the base model, to compare it with the model of the run.

        Return None if there is nothing to compare.
        """
        return None

    def describe(self, model: Artifact, test: Artifact | None) -> Iterable[str]:
        """Yield lines that say what has changed from the base model to the model of the run."""
        return ()


def find_fine_tuning(config: Config) -> FineTuning:
    """Return what `training.max_harm` asks for; without it, trained weights are kept.

    Raises:
        UserError: the extra that knows `training.max_harm` is not installed.
    """
    if config.training.max_harm is None:
        return FineTuning()
    fine_tuning: FineTuning = load_plugin("actions", "max_harm")()
    return fine_tuning
