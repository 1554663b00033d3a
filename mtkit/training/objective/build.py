"""The objective that the settings ask for."""

from __future__ import annotations

from mtkit.config.objective import CrossEntropy, MinimumRisk
from mtkit.config.settings import Learning
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.training.objective.objective import Objective
from mtkit.training.objective.risk import ExpectedRisk, Judge


def build_objective(
    model: EncoderDecoder, settings: Learning, judge: Judge | None = None
) -> Objective:
    """The loss that the settings ask for, on top of `model`; of translations by a `judge`."""
    match settings.objective:
        case CrossEntropy():
            return Objective(model, settings.label_smoothing)
        case MinimumRisk() as risk:
            if judge is None:
                raise ValueError("objective: minimum_risk: nobody to judge translations")
            return ExpectedRisk(model, risk, judge)
