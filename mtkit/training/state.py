"""All that changes during a run.

(Seed, epoch) determine batch order and subwords; step and validations determine the learning rate;
(seed, step, micro-batch) determine dropout. So weights, optimizer moments and the few numbers of
`TrainingProgress` are enough to resume exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from mtkit.config.settings import Criterion, TrainingSettings
from mtkit.models.acceleration import Launcher, find_acceleration
from mtkit.models.device import TORCH_DTYPES, Precision
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.training.data import Position
from mtkit.training.figures import Figures
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

    @classmethod
    def of(
        cls, step: int, loss: float, bleu: float | None = None, chrf: float | None = None
    ) -> Validation:
        """Return a validation with the perplexity that belongs to its loss."""
        return cls(step, loss, math.exp(min(loss, 700.0)), bleu, chrf)

    def suitable(self, criterion: Criterion) -> Criterion:
        """Return the criterion, but chrF instead of BLEU if the text is too short for BLEU."""
        return "chrf" if criterion == "bleu" and self.bleu is None else criterion

    def key(self, criterion: Criterion) -> tuple[float, float]:
        """Return a sort key: smaller is better for every criterion; the loss breaks ties.

        A value that is not finite is worse than any other.
        """
        value = float(getattr(self, self.suitable(criterion)))
        badness = (
            value if criterion == "loss" else -value
        )  # of BLEU, chrF and steps, more is better
        if not math.isfinite(badness):
            badness = math.inf
        loss = self.loss if math.isfinite(self.loss) else math.inf
        return badness, loss


def rank(validations: Sequence[Validation], criterion: Criterion) -> list[Validation]:
    """Return the validations, best first; of equal validations, the earlier first."""
    return sorted(validations, key=lambda validation: validation.key(criterion))


def is_stalled(
    validations: Sequence[Validation], criterion: Criterion, patience: int | None
) -> bool:
    """Return whether the last `patience` validations brought no new best; never if it is None."""
    if patience is None or not validations:
        return False
    best = rank(validations, criterion)[0]
    later = len(validations) - 1 - validations.index(best)
    return later >= patience


def is_finished(training: TrainingSettings, progress: TrainingProgress) -> bool:
    """Return whether a run has made all its steps, or no longer gets better."""
    if training.epochs is not None and progress.position.epoch >= training.epochs:
        return True
    if training.steps is not None and progress.step >= training.steps:
        return True
    return is_stalled(progress.validations, training.best_by, training.patience)


@dataclass
class TrainingProgress:
    """The numbers of a run, which a checkpoint stores as JSON."""

    precision: Precision = "float32"
    step: int = 0
    """Number of steps that are done."""
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
    progress: TrainingProgress
    """Progress at the last `read_figures`; only step, position and learning rate are current."""
    figures: Figures
    """Sums, norm and counts of skipped steps, on the device; `read_figures` copies them."""
    launcher: Launcher
    """What calls the functions of a step; on a GPU, CUDA graphs."""
    seconds: float = 0.0
    """Duration of the run so far, without interruptions."""

    def autocast(self) -> torch.autocast:
        """Return the context of forward passes."""
        device, precision = self.model.device.type, self.progress.precision
        return torch.autocast(device, TORCH_DTYPES[precision], precision != "float32")

    def restart_launcher(self) -> None:
        """Forget what was recorded, because weights or optimizer state have moved in memory."""
        self.launcher = find_acceleration(self.model.device.type).new_launcher()

    def complete_step(self, rate: float) -> None:
        """Count a step with the learning rate `rate`, which the device may still be computing."""
        self.progress.step += 1
        self.progress.window.learning_rate = rate
        self.launcher.pace()

    def read_figures(self) -> None:
        """Wait for the device, and copy all `figures` to `progress` by one transfer.

        Only the training loop calls this, because a step must not wait for the device.
        """
        progress = self.progress
        # In the order of `Figures`.
        smoothed, nll, tokens, norm, skipped, in_a_row, most = self.figures.values.tolist()
        progress.window = LogWindow(
            smoothed=smoothed,
            nll=nll,
            tokens=int(tokens),
            learning_rate=progress.window.learning_rate,
            gradient_norm=norm,
        )
        progress.skipped = int(skipped)
        progress.skipped_in_a_row = int(in_a_row)
        progress.most_skipped_in_a_row = int(most)

    def write_figures(self) -> None:
        """Copy the numbers of a changed `progress` to `figures`, on the device."""
        progress = self.progress
        window = progress.window
        figures = self.figures
        figures.smoothed.fill_(window.smoothed)
        figures.nll.fill_(window.nll)
        figures.tokens.fill_(window.tokens)
        figures.gradient_norm.fill_(window.gradient_norm)
        figures.skipped.fill_(progress.skipped)
        figures.skipped_in_a_row.fill_(progress.skipped_in_a_row)
        figures.most_skipped_in_a_row.fill_(progress.most_skipped_in_a_row)


def new_state(
    model: EncoderDecoder, training: TrainingSettings, precision: Precision = "float32"
) -> TrainState:
    """Return the state before the first step; `model` must already be on its device."""
    device = model.device
    return TrainState(
        model=model,
        loss=TrainingLoss(model, training.label_smoothing).train(),
        gradients=Gradients(model.parameters()),
        optimizer=build_optimizer(model, training.optimizer),
        progress=TrainingProgress(precision),
        figures=Figures(device),
        launcher=find_acceleration(device.type).new_launcher(),
    )
