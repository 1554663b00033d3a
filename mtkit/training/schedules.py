"""The learning rate as a pure function of the step and of the validations so far."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mtkit.config.settings import Cosine, InverseSqrt, Learning, Noam, Plateau, StepDecay


def learning_rate(
    step: int,
    learning: Learning,
    d_model: int,
    total_steps: int,
    losses: Sequence[tuple[int, float]] = (),
) -> float:
    """The rate of update `step`, counted from 1.

    `losses` are the validations so far as (step, validation loss); only `plateau` looks at them.
    """
    schedule, warmup = learning.schedule, learning.warmup
    if isinstance(schedule, Noam):
        return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))
    if step < warmup:
        return schedule.peak * step / warmup
    match schedule:
        case InverseSqrt():
            return schedule.peak * math.sqrt(warmup / step)
        case Cosine():
            share = min(1.0, (step - warmup) / max(1, total_steps - warmup))
            swing = 0.5 * (1 + math.cos(math.pi * share))
            return schedule.floor + (schedule.peak - schedule.floor) * swing
        case StepDecay():
            decays = 0 if step < schedule.start else 1 + (step - schedule.start) // schedule.every
            return float(schedule.peak * schedule.factor**decays)
        case Plateau():
            seen = [loss for at, loss in losses if warmup <= at < step]
            return float(schedule.peak * schedule.factor ** _decays(seen, schedule.patience))


def _decays(losses: Sequence[float], patience: int) -> int:
    """How often `patience` validations in a row brought no new best, each counted once."""
    best, waited, decays = math.inf, 0, 0
    for loss in losses:
        if loss < best:
            best, waited = loss, 0
            continue
        waited += 1
        if waited == patience:
            decays, waited = decays + 1, 0
    return decays
