"""All that changes during a run.

(Seed, epoch) determine batch order and subwords; step and validations determine the learning rate;
(seed, step, micro-batch) determine dropout. So weights, optimizer moments and the few numbers of
`TrainingProgress` are enough to resume exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from mtkit.config.settings import Criterion, TrainingSettings
from mtkit.models.device import TORCH_DTYPES, Precision
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.fast.graphs import Graphs, Inputs
from mtkit.training.data import Position
from mtkit.training.gradients import Gradients
from mtkit.training.loss import TrainingLoss
from mtkit.training.optimizers import build_optimizer


@dataclass
class LogWindow:
    """Sums over the steps since the last logged step, and the last learning rate and norm."""

    smoothed: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    learning_rate: float = 0.0
    gradient_norm: float = 0.0


@dataclass(frozen=True)
class Validation:
    """The quality at `step`: loss in nats per target token (no smoothing), and BLEU and chrF."""

    step: int
    loss: float
    perplexity: float
    bleu: float | None = None
    chrf: float | None = None

    def suitable(self, criterion: Criterion) -> Criterion:
        """Return the criterion, but chrF instead of BLEU if the text is too short for BLEU."""
        return "chrf" if criterion == "bleu" and self.bleu is None else criterion

    def key(self, criterion: Criterion) -> tuple[float, float]:
        """Return a sort key: smaller is better for every criterion; the loss breaks ties.

        A value that is not finite is worse than any other.
        """
        value = float(getattr(self, self.suitable(criterion)))
        signed = value if criterion == "loss" else -value
        loss, worth = (it if math.isfinite(it) else math.inf for it in (self.loss, signed))
        return worth, loss


def rank(validations: Sequence[Validation], criterion: Criterion) -> list[Validation]:
    """Return the validations, best first; of equal ones, the earlier first."""
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
    """The numbers of a run, which a checkpoint stores as JSON."""

    precision: Precision = "float32"
    step: int = 0
    position: Position = field(default_factory=Position)
    skipped: int = 0
    """Number of steps skipped because the loss or the gradient was not finite."""
    skipped_in_a_row: int = 0
    most_skipped_in_a_row: int = 0
    """Maximum of `skipped_in_a_row` since the run began or was rolled back."""
    rate_scale: float = 1.0
    """Factor of the learning rate; it is halved whenever the run is rolled back."""
    window: LogWindow = field(default_factory=LogWindow)
    validations: list[Validation] = field(default_factory=list)


@dataclass
class TrainState:
    """Everything that changes during training."""

    model: EncoderDecoder
    loss: TrainingLoss
    gradients: Gradients
    """The gradients of the model; they are zero between steps."""
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    progress: TrainingProgress
    """Progress at the last `read_figures`; only step, position and learning rate are current."""
    figures: Float[Tensor, " 7"]
    """Sums, norm and counts of skipped steps, on the device; `read_figures` copies them."""
    graphs: Graphs | None
    seconds: float = 0.0
    """Duration of the run so far, without interruptions."""

    def autocast(self) -> torch.autocast:
        """Return the context of forward passes."""
        device, precision = self.model.device.type, self.progress.precision
        return torch.autocast(device, TORCH_DTYPES[precision], precision != "float32")

    def call(self, name: str, function: Callable[[Inputs], Tensor], inputs: Inputs) -> Tensor:
        """Return function(inputs); on a GPU with graphs, compute it by a CUDA graph."""
        return function(inputs) if self.graphs is None else self.graphs.call(name, function, inputs)

    def restart_graphs(self) -> None:
        """Discard all graphs, because weights or optimizer state have moved in memory."""
        if self.graphs is not None:
            self.graphs = Graphs()

    def complete_step(self, rate: float) -> None:
        """Count a step with the learning rate `rate`, which the device may still be computing."""
        self.progress.step += 1
        self.progress.window.learning_rate = rate
        if self.graphs is not None:
            self.graphs.pace()

    def add_figures(
        self, sums: Float[Tensor, " 3"], norm: Tensor, healthy: Tensor, skipped: Tensor
    ) -> None:
        """Count a step in `figures`; if `healthy`, add `sums` (losses, tokens) and set the norm."""
        old, in_a_row = self.figures, (self.figures[5] + 1) * skipped
        others = torch.where(healthy, norm, old[3]), old[4] + skipped
        worst = in_a_row, torch.maximum(in_a_row, old[6])
        old.copy_(torch.cat([old[:3] + torch.where(healthy, sums, 0), torch.stack(others + worst)]))

    def read_figures(self) -> None:
        """Wait for the device, and copy `figures` to `progress`."""
        progress = self.progress
        smoothed, nll, tokens, norm, skipped, in_a_row, most = self.figures.tolist()
        rate = progress.window.learning_rate
        progress.window = LogWindow(smoothed, nll, int(tokens), rate, norm)
        progress.skipped, progress.skipped_in_a_row = int(skipped), int(in_a_row)
        progress.most_skipped_in_a_row = int(most)

    def write_figures(self) -> None:
        """Copy the numbers of a changed `progress` to `figures`, on the device."""
        progress, window = self.progress, self.progress.window
        sums = window.smoothed, window.nll, window.tokens, window.gradient_norm
        counts = progress.skipped, progress.skipped_in_a_row, progress.most_skipped_in_a_row
        self.figures.copy_(self.figures.new_tensor([*sums, *counts]))


def new_state(
    model: EncoderDecoder, training: TrainingSettings, precision: Precision = "float32"
) -> TrainState:
    """Return the state before the first step; `model` must already be on its device."""
    loss, device = TrainingLoss(model, training.label_smoothing).train(), model.device
    dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no other
    can_record = device.type == "cuda" and precision != "float16"
    return TrainState(
        model=model,
        loss=loss,
        gradients=Gradients(model.parameters()),
        optimizer=build_optimizer(model, training.optimizer),
        scaler=torch.amp.GradScaler(device.type, enabled=precision == "float16"),
        progress=TrainingProgress(precision),
        figures=torch.zeros(7, dtype=dtype, device=device),
        graphs=Graphs() if can_record else None,
    )
