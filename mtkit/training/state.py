"""All that changes during a run.

Batch order and subwords are a function of (seed, epoch), the learning rate of the step and the
validations, dropout of (seed, step, micro-batch). So weights, optimizer moments and the few numbers
of `TrainingProgress` are enough to resume exactly.
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
from mtkit.training.loss import TrainingLoss
from mtkit.training.optimizers import build_optimizer
from mtkit.training.process_group import SINGLE_PROCESS, ProcessGroup


@dataclass(frozen=True)
class StepReport:
    """What one step did, summed over all processes; losses in nats."""

    smoothed: float
    nll: float
    tokens: int
    learning_rate: float
    gradient_norm: float
    skipped: bool = False
    """Whether the loss or the gradient was not finite; then the weights are unchanged."""


@dataclass
class LogWindow:
    """Sums over the steps since the last logged one, and the last learning rate and norm."""

    smoothed: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    learning_rate: float = 0.0
    gradient_norm: float = 0.0

    def add(self, report: StepReport) -> None:
        """Add a step."""
        self.smoothed += report.smoothed
        self.nll += report.nll
        self.tokens += report.tokens
        self.learning_rate, self.gradient_norm = report.learning_rate, report.gradient_norm


@dataclass(frozen=True)
class Validation:
    """The quality at `step`: nats per target token (no smoothing), and scores of decoded text."""

    step: int
    loss: float
    perplexity: float
    bleu: float | None = None
    chrf: float | None = None

    def suitable(self, criterion: Criterion) -> Criterion:
        """Return the criterion; chrF instead of BLEU where the text is too short for it."""
        return "chrf" if criterion == "bleu" and self.bleu is None else criterion

    def key(self, criterion: Criterion) -> tuple[float, float]:
        """Return a sort key: smaller is better for every criterion; the loss breaks ties.

        A value that is not finite is worse than any other.
        """
        value = float(getattr(self, self.suitable(criterion)))
        signed = value if criterion in ("loss", "perplexity") else -value
        loss, worth = (it if math.isfinite(it) else math.inf for it in (self.loss, signed))
        return worth, loss


def rank(validations: Sequence[Validation], criterion: Criterion) -> list[Validation]:
    """Return the validations, best first; the earlier of equals first."""
    return sorted(validations, key=lambda validation: validation.key(criterion))


def is_stalled(
    validations: Sequence[Validation], criterion: Criterion, patience: int | None
) -> bool:
    """Return whether the last `patience` validations brought no new best."""
    if patience is None or not validations:
        return False
    best = rank(validations, criterion)[0]
    return len(validations) - 1 - validations.index(best) >= patience


@dataclass
class TrainingProgress:
    """The numbers of a run, which a checkpoint keeps as JSON."""

    precision: Precision = "float32"
    max_tokens: int = 0
    """Padded tokens in a batch; 0 until `batching.max_tokens: auto` has been resolved."""
    step: int = 0
    position: Position = field(default_factory=Position)
    skipped: int = 0
    """Number of steps skipped because the loss or the gradient was not finite."""
    skipped_in_a_row: int = 0
    rate_scale: float = 1.0
    """Factor of the learning rate: halved whenever the run was rolled back."""
    window: LogWindow = field(default_factory=LogWindow)
    validations: list[Validation] = field(default_factory=list)


@dataclass
class TrainState:
    """What `train_step`, and the loop around it, change."""

    model: EncoderDecoder
    loss: nn.Module
    """The model's TrainingLoss; with several processes, in DistributedDataParallel."""
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    progress: TrainingProgress
    seconds: float = 0.0
    """Duration of the run so far, without interruptions."""

    def autocast(self) -> torch.autocast:
        """Return the context of forward passes."""
        device, precision = self.model.device.type, self.progress.precision
        return torch.autocast(device, TORCH_DTYPES[precision], precision != "float32")


def new_state(
    model: EncoderDecoder,
    smoothing: float,
    optimizer: Optimizer,
    precision: Precision,
    group: ProcessGroup = SINGLE_PROCESS,
) -> TrainState:
    """Return the state before the first step of a model, which is on its device already."""
    loss = TrainingLoss(model, smoothing).train()
    return TrainState(
        model=model,
        loss=group.parallel(loss),
        optimizer=build_optimizer(model, optimizer),
        scaler=torch.amp.GradScaler(model.device.type, enabled=precision == "float16"),
        progress=TrainingProgress(precision),
    )
