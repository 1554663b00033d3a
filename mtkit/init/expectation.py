"""What to expect of a plan, in one sentence: what similar runs reached that were measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mtkit.init.facts import CorpusFacts
from mtkit.init.presets import Plan
from mtkit.report import plural


@dataclass(frozen=True)
class MeasuredRun:
    """A run whose BLEU was measured on lines that were held out from its own corpus."""

    corpus: str
    pairs: int
    target_tokens: float
    """Mean number of target tokens of a pair."""
    epochs: float
    bleu: float

    def __str__(self) -> str:
        return f"{self.bleu:g} ({self.corpus}: {self.epochs:.1f} epochs of {self.pairs:,} pairs)"

    def distance(self, pairs: int, target_tokens: float, epochs: float) -> float:
        """Return how different another run is: the sum of the logarithms of the three ratios."""
        ratios = (
            pairs / self.pairs,
            # Long sentences are harder: the pairs that a model needs grow with the square.
            (target_tokens / self.target_tokens) ** 2,
            epochs / self.epochs,
        )
        return sum(abs(math.log(ratio)) for ratio in ratios)


MAX_SIMILAR = 3
"""Number of corpora among whose runs the expectation lies."""
CAPTIONS = "captions, English to German"
SHORT_SENTENCES = "short sentences, English to Chinese"
NEWS, AYMARA = "news, English to Yoruba", "news, Spanish to Aymara"
SHIPIBO = "short sentences, Spanish to Shipibo-Konibo"
MEASURED_RUNS = (
    MeasuredRun(CAPTIONS, 2_718, 19.0, 1.8, 5.6),
    MeasuredRun(CAPTIONS, 2_718, 19.0, 6.2, 20.4),
    MeasuredRun(CAPTIONS, 10_000, 17.0, 25.0, 28.5),
    MeasuredRun(CAPTIONS, 10_000, 17.0, 74.0, 31.5),
    MeasuredRun(CAPTIONS, 28_999, 16.0, 8.2, 36.6),
    MeasuredRun(CAPTIONS, 28_999, 16.0, 27.0, 39.5),
    MeasuredRun(SHORT_SENTENCES, 27_900, 7.0, 0.9, 8.5),
    MeasuredRun(SHORT_SENTENCES, 27_900, 7.0, 2.8, 21.5),
    MeasuredRun(SHORT_SENTENCES, 27_900, 7.0, 51.0, 26.9),
    MeasuredRun(NEWS, 5_993, 40.0, 3.4, 5.4),
    MeasuredRun(NEWS, 5_993, 40.0, 25.0, 8.0),
    MeasuredRun(NEWS, 2_542, 49.0, 2.4, 1.5),
    MeasuredRun(NEWS, 2_542, 49.0, 15.0, 3.3),
    MeasuredRun(AYMARA, 5_766, 36.0, 0.9, 0.4),
    MeasuredRun(SHIPIBO, 14_135, 9.0, 1.0, 1.0),
)
"""configs/RESULTS.md#mtkit-init has the runs.

Corpora that repeat themselves, such as texts of software, are left out: they promise too much.
"""


def describe_expectation(facts: CorpusFacts, plan: Plan, minutes: float) -> Iterator[str]:
    """Say what to expect of the plan, and why it does not use all the time."""
    yield f"expect: {describe_similar(facts.pairs, plan.trial.target_tokens, plan.epochs)}"
    if plan.has_spare_time:
        yield (
            f"{minutes:g} minutes are more than the run can use: after {plan.epochs:,.0f} epochs, "
            "the model would learn so few pairs by heart"
        )


def describe_similar(pairs: int, target_tokens: float, epochs: float) -> str:
    """Return how long the plan trains, and what similar measured runs reached, in words."""
    runs = find_similar(pairs, target_tokens, epochs)
    worst = min(runs, key=lambda run: run.bleu)
    best = max(runs, key=lambda run: run.bleu)
    # What the corpus of the best run reached when it was trained for longest.
    longest = max(
        (run for run in MEASURED_RUNS if (run.corpus, run.pairs) == (best.corpus, best.pairs)),
        key=lambda run: run.epochs,
    )
    text = (
        f"{epochs:,.1f} epochs of {plural(pairs, 'pair')}; similar runs that were measured had "
        f"BLEU {worst} to {best} on lines held out from their own text"
    )
    if longest is not best:
        text += f"; the corpus of the better one reached {longest.bleu:g}"
        text += f" after {longest.epochs:g} epochs"
    if pairs < min(run.pairs for run in runs) / 2:
        text += "; so few pairs give less"
    return f"{text}; text of another kind is translated worse"


def find_similar(pairs: int, target_tokens: float, epochs: float) -> list[MeasuredRun]:
    """Return the most similar run of each of the MAX_SIMILAR most similar corpora, nearest first.

    Several, because nobody knows how hard the languages of a new corpus are.
    """
    runs = sorted(MEASURED_RUNS, key=lambda run: run.distance(pairs, target_tokens, epochs))
    nearest: dict[str, MeasuredRun] = {}
    for run in runs:
        nearest.setdefault(run.corpus, run)
    return list(nearest.values())[:MAX_SIMILAR]
