"""The objective that the settings ask for."""

from __future__ import annotations

from mtkit.config.objective import CrossEntropy, MinimumRisk, RDrop
from mtkit.config.settings import Learning
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.training.objective.agreement import Agreement
from mtkit.training.objective.objective import Objective
from mtkit.training.objective.risk import ExpectedRisk, Judge


def build_objective(
    model: EncoderDecoder, settings: Learning, judge: Judge | None = None
) -> Objective:
    """The loss that the settings ask for, on top of `model`; of translations by a `judge`."""
    smoothing = settings.label_smoothing
    match settings.objective:
        case CrossEntropy():
            return Objective(model, smoothing)
        case RDrop(alpha=alpha):
            return Objective(model, smoothing, Agreement(alpha))
        case MinimumRisk() as risk:
            if judge is None:
                raise ValueError("objective: minimum_risk: nobody to judge translations")
            return ExpectedRisk(model, risk, judge)
