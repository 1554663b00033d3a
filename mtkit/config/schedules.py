"""Learning rate schedules: one class each, with its settings and its formula.

To add one, write a subclass of `Warmup`, and add it to `AnySchedule`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from mtkit.config.base import Settings

DecayFactor = Annotated[
    float, Field(gt=0, lt=1, description="multiplies the learning rate at each decay")
]


@dataclass(frozen=True)
class ScheduleInputs:
    """Everything that a learning rate may depend on, except the step."""

    warmup: int
    total_steps: int
    d_model: int
    validations: Sequence[tuple[int, float]] = ()
    """Step and loss of every validation so far."""


class Schedule(Settings):
    """The learning rate as a pure function of the step."""

    depends_on_length: ClassVar[bool] = False
    """Whether the rate depends on `total_steps`; if so, a run can only resume with equal length."""
    kind: str

    @abstractmethod
    def rate(self, step: int, inputs: ScheduleInputs) -> float:
        """Return the learning rate of `step`, counted from 1."""

    def check(self, warmup: int) -> None:
        """Raise ValueError if the settings contradict each other or the number of warmup steps."""


class Warmup(Schedule):
    """A linear warmup to `peak`, followed by `decayed`."""

    peak: PositiveFloat = Field(description="learning rate at the end of the warmup")

    def rate(self, step: int, inputs: ScheduleInputs) -> float:
        if step < inputs.warmup:
            return self.peak * step / inputs.warmup
        return float(self.decayed(step, inputs))

    @abstractmethod
    def decayed(self, step: int, inputs: ScheduleInputs) -> float:
        """Return the learning rate of a step at or after the end of the warmup."""


class Noam(Schedule):
    """lr = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), Vaswani et al. 2017, equation 3."""

    kind: Literal["noam"] = "noam"

    def rate(self, step: int, inputs: ScheduleInputs) -> float:
        return float(inputs.d_model**-0.5 * min(step**-0.5, step * inputs.warmup**-1.5))


class InverseSqrt(Warmup):
    """Linear warmup to `peak`, then peak · (warmup / step)^0.5."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"

    def decayed(self, step: int, inputs: ScheduleInputs) -> float:
        return self.peak * math.sqrt(inputs.warmup / step)


class Cosine(Warmup):
    """Linear warmup to `peak`, then half a cosine down to `floor` at the last step."""

    depends_on_length = True
    kind: Literal["cosine"] = "cosine"
    floor: float = Field(0.0, ge=0, description="learning rate at the last step")

    def decayed(self, step: int, inputs: ScheduleInputs) -> float:
        warmup = inputs.warmup
        share = min(1.0, (step - warmup) / max(1, inputs.total_steps - warmup))
        swing = 0.5 * (1 + math.cos(math.pi * share))
        return self.floor + (self.peak - self.floor) * swing

    def check(self, warmup: int) -> None:
        if self.floor > self.peak:
            raise ValueError(
                f"schedule.floor, {self.floor:g}, is above schedule.peak, {self.peak:g}"
            )


class Plateau(Warmup):
    """Linear warmup to `peak`; times `factor` after `patience` validations without a new best."""

    kind: Literal["plateau"] = "plateau"
    factor: DecayFactor = 0.5
    patience: PositiveInt = Field(2, description="validations without a new best before a decay")

    def decayed(self, step: int, inputs: ScheduleInputs) -> float:
        best = math.inf
        waited = 0
        decays = 0
        for validated_step, loss in inputs.validations:
            if not inputs.warmup <= validated_step < step:
                continue
            if loss < best:
                best = loss
                waited = 0
                continue
            waited += 1
            if waited == self.patience:
                decays += 1
                waited = 0  # each validation counts towards one decay only
        return self.peak * self.factor**decays


class StepDecay(Warmup):
    """Linear warmup to `peak`; from step `start` on, times `factor` every `every` steps."""

    kind: Literal["step"] = "step"
    factor: DecayFactor = 0.5
    start: PositiveInt = Field(description="step of the first decay")
    every: PositiveInt = Field(description="steps between decays")

    def decayed(self, step: int, inputs: ScheduleInputs) -> float:
        decays = 0 if step < self.start else 1 + (step - self.start) // self.every
        return self.peak * self.factor**decays

    def check(self, warmup: int) -> None:
        if self.start < warmup:
            raise ValueError(
                f"schedule.start, {self.start:,}, lies within the warmup of {warmup:,}"
            )


AnySchedule = Annotated[
    Noam | InverseSqrt | Cosine | Plateau | StepDecay, Field(discriminator="kind")
]
