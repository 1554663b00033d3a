"""All that a run is between two updates.

The order of batches and their subwords are a function of (seed, epoch), the learning rate of the
step and the validations, dropout of (seed, step, micro-batch): so weights, optimizer moments and a
few numbers are enough to go on exactly as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.config.settings import Learning, Metric, Muon, Optimizer, Sgd
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.weights import copied_weights, weights_of
from mtkit.training.data.updates import BEGINNING, Position
from mtkit.training.objective.objective import Objective, build_objective
from mtkit.training.optimizer.muon import build_muon
from mtkit.training.optimizer.precision import autocast
from mtkit.training.run.distributed import ALONE, Ranks


@dataclass
class Window:
    """Sums over the updates since the last logged step, and how the last of them went."""

    smoothed: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    learning_rate: float = 0.0
    gradient_norm: float = 0.0


@dataclass(frozen=True)
class Validation:
    """The model at `step`: nats per target token (no smoothing), and scores of decoded text."""

    step: int
    loss: float
    perplexity: float
    bleu: float | None = None
    chrf: float | None = None

    def key(self, metric: Metric) -> float:
        """Smaller is better, whatever the metric."""
        value = float(getattr(self, metric))
        return value if metric in ("loss", "perplexity") else -value


def rank(validations: Sequence[Validation], metric: Metric) -> list[Validation]:
    """Best first; the earlier of equals first."""
    return sorted(validations, key=lambda validation: validation.key(metric))


def is_stalled(validations: Sequence[Validation], metric: Metric, patience: int | None) -> bool:
    """Whether the last `patience` validations brought no new best."""
    if patience is None or not validations:
        return False
    best = rank(validations, metric)[0]
    return len(validations) - 1 - validations.index(best) >= patience


@dataclass
class TrainState:
    """Mutable through `train_step` and the loop around it."""

    model: EncoderDecoder
    objective: Objective
    """The model with its loss."""
    parallel: nn.Module
    """The objective as it is differentiated: with gradients that all ranks share."""
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    precision: str
    max_tokens: int = 0
    """Number of padded tokens in a batch; 0 until `batching.max_tokens: auto` is found out."""
    average: dict[str, Tensor] | None = None
    """Exponential moving average of the weights, if asked for."""
    step: int = 0
    position: Position = BEGINNING
    skipped: int = 0
    """Number of updates left out because a loss or gradient was not finite."""
    skipped_in_a_row: int = 0
    rate_scale: float = 1.0
    """Factor of the learning rate: halved whenever the run was rolled back."""
    window: Window = field(default_factory=Window)
    validations: list[Validation] = field(default_factory=list)
    seconds: float = 0.0
    """How long the run took so far, interruptions apart."""

    def count(self, *, skipped: bool) -> None:
        """One more update was made, or skipped."""
        self.step += 1
        self.skipped += skipped
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped else 0

    def autocast(self) -> torch.autocast:
        """The context in which forward passes of the objective run."""
        return autocast(self.precision, self.model.output_weight.device)

    def weights(self) -> dict[str, Tensor]:
        """What is validated and kept: the moving average where there is one."""
        return weights_of(self.model) if self.average is None else self.average


def new_state(
    model: EncoderDecoder, learning: Learning, precision: str, ranks: Ranks = ALONE
) -> TrainState:
    """The state before the first update of `model`, which is on its device already."""
    device = model.output_weight.device
    objective = build_objective(model.train(), learning)
    return TrainState(
        model,
        objective,
        ranks.parallel(objective),
        build_optimizer(model, learning.optimizer),
        torch.amp.GradScaler(device.type, enabled=precision == "float16"),
        precision,
        average=copied_weights(model) if learning.ema is not None else None,
    )


def build_optimizer(model: EncoderDecoder, settings: Optimizer) -> torch.optim.Optimizer:
    """The learning rate is set before every update, from the schedule."""
    if isinstance(settings, Muon):
        return build_muon(model, settings)
    shared: dict[str, Any] = {
        "params": model.parameters(),
        "lr": 0.0,
        "weight_decay": settings.weight_decay,
    }
    if isinstance(settings, Sgd):
        return torch.optim.SGD(**shared, momentum=settings.momentum)
    shared |= {"betas": (settings.beta1, settings.beta2), "eps": settings.eps}
    match settings.kind:
        case "adam":
            return torch.optim.Adam(**shared, fused=True)
        case "adamw":
            return torch.optim.AdamW(**shared, fused=True)
        case "radam":
            return torch.optim.RAdam(**shared)
