"""All that changes during a run.

Batch order and subwords are a function of (seed, epoch), the learning rate of the step and the
validations, dropout of (seed, step, micro-batch). So weights, optimizer moments and the few numbers
of `TrainingProgress` are enough to resume exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.config.settings import Criterion, TrainingSettings
from mtkit.models.device import TORCH_DTYPES, Precision
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.training.data import Position
from mtkit.training.graphs import Graphs, Inputs
from mtkit.training.loss import TrainingLoss
from mtkit.training.optimizers import build_optimizer
from mtkit.training.process_group import SINGLE_PROCESS, ProcessGroup


@dataclass
class LogWindow:
    """Sums over the steps since the last logged one, and the last learning rate and norm."""

    smoothed: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    learning_rate: float = 0.0
    gradient_norm: float = 0.0


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
        signed = value if criterion == "loss" else -value
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
    step: int = 0
    position: Position = field(default_factory=Position)
    skipped: int = 0
    """Number of steps skipped because the loss or the gradient was not finite."""
    skipped_in_a_row: int = 0
    most_skipped_in_a_row: int = 0
    """The most since the run began or was rolled back."""
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
    """As of the last `read_figures`, but for its step, its position and its learning rate."""
    figures: Float[Tensor, " 7"]
    """Figures of the steps so far, on the device; see `read_figures`."""
    graphs: Graphs | None
    seconds: float = 0.0
    """Duration of the run so far, without interruptions."""

    def autocast(self) -> torch.autocast:
        """Return the context of forward passes."""
        device, precision = self.model.device.type, self.progress.precision
        return torch.autocast(device, TORCH_DTYPES[precision], precision != "float32")

    def call(self, name: str, function: Callable[[Inputs], Tensor], inputs: Inputs) -> Tensor:
        """Return function(inputs), from a CUDA graph where there is one."""
        return function(inputs) if self.graphs is None else self.graphs.call(name, function, inputs)

    def restart_graphs(self) -> None:
        """Forget all graphs, after weights or optimizer have moved in memory."""
        if self.graphs is not None:
            self.graphs = Graphs()

    def clear_gradients(self) -> None:
        """Free the gradients, or set them to zero where graphs add to them."""
        self.optimizer.zero_grad(set_to_none=self.graphs is None)

    def add_figures(
        self, sums: Float[Tensor, " 3"], norm: Tensor, healthy: Tensor, skipped: Tensor
    ) -> None:
        """Add a step: if `healthy`, the sums of both losses and of tokens, and the norm."""
        old, in_a_row = self.figures, (self.figures[5] + 1) * skipped
        others = torch.where(healthy, norm, old[3]), old[4] + skipped
        worst = in_a_row, torch.maximum(in_a_row, old[6])
        old.copy_(torch.cat([old[:3] + torch.where(healthy, sums, 0), torch.stack(others + worst)]))

    def read_figures(self) -> None:
        """Wait for the device, and copy its figures to `progress`."""
        progress = self.progress
        smoothed, nll, tokens, norm, skipped, in_a_row, most = self.figures.tolist()
        rate = progress.window.learning_rate
        progress.window = LogWindow(smoothed, nll, int(tokens), rate, norm)
        progress.skipped, progress.skipped_in_a_row = int(skipped), int(in_a_row)
        progress.most_skipped_in_a_row = int(most)

    def write_figures(self) -> None:
        """Copy the figures of `progress` to the device, after a change."""
        progress, window = self.progress, self.progress.window
        sums = window.smoothed, window.nll, window.tokens, window.gradient_norm
        counts = progress.skipped, progress.skipped_in_a_row, progress.most_skipped_in_a_row
        self.figures.copy_(self.figures.new_tensor([*sums, *counts]))


def new_state(
    model: EncoderDecoder,
    training: TrainingSettings,
    precision: Precision = "float32",
    group: ProcessGroup = SINGLE_PROCESS,
) -> TrainState:
    """Return the state before the first step of a model, which is on its device already."""
    loss, device = TrainingLoss(model, training.label_smoothing).train(), model.device
    dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no other
    can_record = device.type == "cuda" and group.size == 1 and precision != "float16"
    return TrainState(
        model=model,
        loss=group.parallel(loss),
        optimizer=build_optimizer(model, training.optimizer),
        scaler=torch.amp.GradScaler(device.type, enabled=precision == "float16"),
        progress=TrainingProgress(precision),
        figures=torch.zeros(7, dtype=dtype, device=device),
        graphs=Graphs() if can_record else None,
    )
