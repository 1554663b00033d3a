"""The objective that the settings ask for."""

from __future__ import annotations

from mtkit.config.objective import CrossEntropy, MinimumRisk, RDrop, SimCut
from mtkit.config.settings import Learning
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.training.objective.consistency import Agreement, Constancy
from mtkit.training.objective.objective import Objective
from mtkit.training.objective.risk import ExpectedRisk, Judge


def build_objective(
    model: EncoderDecoder, settings: Learning, judge: Judge | None = None
) -> Objective:
    """The loss that the settings ask for, on top of `model`; of translations by a `judge`."""
    shared = (model, settings.label_smoothing, settings.source_dropout)
    match settings.objective:
        case CrossEntropy():
            return Objective(*shared)
        case RDrop(alpha=alpha):
            return Objective(*shared, Agreement(alpha))
        case SimCut(alpha=alpha, cut=cut):
            return Objective(*shared, Constancy(alpha), cut)
        case MinimumRisk() as risk:
            if judge is None:
                raise ValueError("objective: minimum_risk: nobody to judge translations")
            return ExpectedRisk(model, settings.source_dropout, risk, judge)
