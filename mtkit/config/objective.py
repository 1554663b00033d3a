"""What training minimises: one kind, with its numbers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat

from mtkit.config.base import Settings


class CrossEntropy(Settings):
    """-log P of the references, smoothed by `label_smoothing`."""

    kind: Literal["cross_entropy"] = "cross_entropy"


class MinimumRisk(Settings):
    """Of what the model itself writes, the expected 1 - chrF or 1 - BLEU; Shen et al. 2016.

    It goes on from a trained model, `init_from`. A batch takes the memory of 1 + `samples` as large
    ones: lower `batching.max_tokens`, and raise `accumulate` instead.
    """

    kind: Literal["minimum_risk"] = "minimum_risk"
    metric: Literal["bleu", "chrf"] = "chrf"
    samples: int = Field(8, ge=2, description="translations drawn of each source")
    alpha: PositiveFloat = Field(0.005, description="sharpness: 1 weighs them by P, 0 alike")
    reference: bool = Field(True, description="whether it is weighed beside them")


Objective = Annotated[CrossEntropy | MinimumRisk, Field(discriminator="kind")]
