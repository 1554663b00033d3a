"""All that a run is between two updates.

The order of batches and their subwords are a function of (seed, epoch), the learning rate of the
step and the validations, dropout of (seed, step, micro-batch): so weights, optimizer moments and a
few numbers are enough to go on exactly as if nothing had happened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from mtkit.config.settings import Criterion, Optimizer
from mtkit.models.device import TORCH_DTYPES, Precision
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.training.data import Position
from mtkit.training.loss import Objective
from mtkit.training.optimizers import build_optimizer
from mtkit.training.process_group import SINGLE_PROCESS, ProcessGroup


@dataclass
class Window:
    """Sums over the updates since the last logged step, and how the last of them went."""

    smoothed: float = 0.0
    """The mean of what is minimised, times the target tokens."""
    nll: float = 0.0
    tokens: int = 0
    learning_rate: float = 0.0
    gradient_norm: float = 0.0


@dataclass
class StepReport(Window):
    """The same of one update alone, on all ranks."""

    skipped: bool = False
    """Whether loss or gradient were not finite, so that the weights are as they were."""


@dataclass(frozen=True)
class Validation:
    """The model at `step`: nats per target token (no smoothing), and scores of decoded text."""

    step: int
    loss: float
    perplexity: float
    bleu: float | None = None
    chrf: float | None = None

    def key(self, metric: Criterion) -> tuple[float, float]:
        """Smaller is better, whatever the metric; the loss tells between equals, as 0 and 0.

        What is no number is worse than any.
        """
        value = float(getattr(self, metric))
        signed = value if metric in ("loss", "perplexity") else -value
        loss, worth = (it if math.isfinite(it) else math.inf for it in (self.loss, signed))
        return worth, loss


def rank(validations: Sequence[Validation], metric: Criterion) -> list[Validation]:
    """Best first; of those that nothing tells apart the earlier first."""
    return sorted(validations, key=lambda validation: validation.key(metric))


def is_stalled(validations: Sequence[Validation], metric: Criterion, patience: int | None) -> bool:
    """Whether the last `patience` validations brought no new best."""
    if patience is None or not validations:
        return False
    best = rank(validations, metric)[0]
    return len(validations) - 1 - validations.index(best) >= patience


@dataclass
class Progress:
    """What of a run is neither weights nor moments."""

    precision: Precision = "float32"
    max_tokens: int = 0
    """Number of padded tokens in a batch; 0 until `batching.max_tokens: auto` is found out."""
    step: int = 0
    position: Position = field(default_factory=Position)
    skipped: int = 0
    """Number of updates left out because a loss or gradient was not finite."""
    skipped_in_a_row: int = 0
    rate_scale: float = 1.0
    """Factor of the learning rate: halved whenever the run was rolled back."""
    window: Window = field(default_factory=Window)
    validations: list[Validation] = field(default_factory=list)


@dataclass(kw_only=True)
class TrainState(Progress):
    """Mutable through `train_step` and the loop around it."""

    model: EncoderDecoder
    objective: Objective
    """The model with its loss."""
    parallel: nn.Module
    """The objective as it is differentiated: with gradients that all ranks share."""
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    seconds: float = 0.0
    """How long the run took so far, interruptions apart."""

    def autocast(self) -> torch.autocast:
        """The context in which forward passes of the objective run."""
        device = self.model.device.type
        return torch.autocast(device, TORCH_DTYPES[self.precision], self.precision != "float32")


def new_state(
    objective: Objective,
    optimizer: Optimizer,
    precision: Precision,
    group: ProcessGroup = SINGLE_PROCESS,
) -> TrainState:
    """The state before the first update of the objective's model, on its device already."""
    model = objective.model
    objective.train()
    return TrainState(
        precision=precision,
        model=model,
        objective=objective,
        parallel=group.parallel(objective),
        optimizer=build_optimizer(model, optimizer),
        scaler=torch.amp.GradScaler(model.device.type, enabled=precision == "float16"),
    )
