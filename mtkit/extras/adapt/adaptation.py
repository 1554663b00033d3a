"""What the adaptation of a base model has changed: its scores on new and on old text, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from mtkit.artifacts.manifest import MANIFEST, Artifact
from mtkit.artifacts.records import load_record
from mtkit.report import table
from mtkit.scoring.comparison import BeforeAndAfter
from mtkit.scoring.metrics import resampling_obstacle

MAX_TRIALS = 5
"""Most weights that are tried beside those of the base model."""
MAX_SCORE = 100.0
"""Largest chrF. With this `max_harm`, old text may lose everything, as that of a parent may."""
MAX_P_VALUE = 0.05 / MAX_TRIALS
"""Largest p-value of a difference that counts as significant.

Only the best of the weights that are tried is tested. With this limit, chance alone finds a gain in
at most 5% of the runs (Bonferroni correction).
"""


@dataclass(frozen=True)
class Adaptation:
    """How far a model has moved from the base weights to the trained weights, and the effect.

    If `share` is 0, the scores are those of the best weights that were tried, not of the model.
    """

    share: Annotated[float, Field(ge=0, le=1)]
    """α: 0 stands for the base weights, 1 for the trained weights."""
    max_harm: float
    """How many points of chrF the old text may lose."""
    new: BeforeAndAfter
    """On the validation set."""
    old: BeforeAndAfter | None = None
    """On the text of `data.keep`; None if there is none."""

    @property
    def is_refused(self) -> bool:
        """Whether the run ends with the base model."""
        return self.share == 0


def is_significantly_better(change: BeforeAndAfter) -> bool:
    """Return whether the adapted model is better, and chance alone hardly explains it."""
    p_value = change.adapted.p_value
    return change.difference > 0 and p_value is not None and p_value <= MAX_P_VALUE


def find_adaptation(model: Artifact) -> Adaptation:
    """Return the adaptation in the report of an adapted model.

    Raises:
        UserError: the report is damaged.
    """
    return load_record(Adaptation, model.report.get("adaptation"), model.path / MANIFEST)


def tabulate_adaptation(adaptation: Adaptation, test: BeforeAndAfter | None) -> Iterator[str]:
    """Yield chrF of the base model and of the adapted model on new and on old text.

    `test`: the scores on the test set; None if there is none.
    """
    rows = [["chrF2", "lines", "base model", "adapted", "difference"]]
    scores_by_text = {
        "new text: test set": test,
        "new text: validation set": adaptation.new,
        "old text: data.keep": adaptation.old,
    }
    for label, scores in scores_by_text.items():
        if scores is not None:
            rows.append(
                [
                    label,
                    f"{scores.lines:,}",
                    f"{scores.given.value:.2f}",
                    f"{scores.adapted.value:.2f}",
                    f"{scores.difference:+.2f}",
                ]
            )
    yield from table(rows)


def describe_adaptation(adaptation: Adaptation) -> str:
    """Say which weights the model has, and why."""
    if adaptation.is_refused:
        return f"the run keeps the base model: {_explain_refusal(adaptation)}"
    gain = (
        f"the model has moved {100 * adaptation.share:g}% of the way from the base model to the "
        f"trained weights: {_describe_gain(adaptation.new)}"
    )
    if adaptation.old is not None:
        difference = adaptation.old.difference
        return f"{gain}; {difference:+.2f} chrF on old text, which may lose {adaptation.max_harm:g}"
    if adaptation.max_harm < MAX_SCORE:
        return f"{gain}; what old text loses is unknown, because data.keep is not set"
    return gain


def _explain_refusal(adaptation: Adaptation) -> str:
    """Say why no trained weights are installed."""
    new = adaptation.new
    if new.adapted.p_value is None:
        return f"no gain can be shown on the validation set: {resampling_obstacle(new.lines)}"
    if new.difference > 0:
        return f"the gain may be chance ({_describe_gain(new)})"
    return "no weights gained on the new text without losing too much on the old text"


def _describe_gain(new: BeforeAndAfter) -> str:
    p_value = new.adapted.p_value
    # Without a p-value, no weights are changed, and `_explain_refusal` says so before.
    assert p_value is not None
    chance = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
    return f"{new.difference:+.2f} chrF on the validation set, {chance}"
