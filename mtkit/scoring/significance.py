"""How sure a score or a difference is: sacreBLEU's intervals and its paired tests.

The sentences of a test set are a sample. An interval says how far a score would move with other
sentences; a paired test, how often a difference as large would come about by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast

from sacrebleu.significance import PairedTest, Result

from mtkit.errors import UserError
from mtkit.report import warn
from mtkit.scoring.metrics import METRICS, Language, Lines, Metric

Test = Literal["bootstrap", "approximate"]
"""Paired bootstrap resampling (Koehn 2004), approximate randomisation (Riezler, Maxwell 2005)."""
SACREBLEU_NAMES: Mapping[Test, str] = {"bootstrap": "bs", "approximate": "ar"}
FEWEST_LINES = 10
"""Lines below which samples are too much alike: an interval would promise what it cannot know."""
MOST_LINES = 10_000
"""Lines above which the samples of all sentences, which sacreBLEU holds at once, take gigabytes."""


def can_resample(lines: int) -> bool:
    """Whether intervals are made; warns where there are too many lines for them."""
    if lines > MOST_LINES:
        warn(f"{lines:,} lines: confidence intervals are made of up to {MOST_LINES:,}")
    return FEWEST_LINES <= lines <= MOST_LINES


def p_values(
    systems: Mapping[str, Sequence[str]],
    references: Lines,
    language: Language,
    test: Test,
    metrics: Iterable[str],
) -> dict[str, dict[str, float]]:
    """System → metric → p, of its difference from the first system, which has none itself.

    Raises UserError where there is nothing to compare with, or too much.
    """
    if len(systems) < 2:
        raise UserError("--paired: a single system: name those to compare, the baseline first")
    if len(references) > MOST_LINES:
        raise UserError(f"--paired: {len(references):,} lines: at most {MOST_LINES:,} can be")
    found: dict[str, dict[str, float]] = {name: {} for name in systems}
    for key in metrics:
        baseline, *others = _tested(METRICS[key], systems, references, language, test)
        for name, result in zip(list(systems)[1:], others, strict=True):
            # Of no difference at all sacreBLEU says that no sample differs more: p near 0.
            p = 1.0 if result.score == baseline.score else cast(float, result.p_value)
            found[name][key] = p
    return found


def _tested(
    metric: Metric,
    systems: Mapping[str, Sequence[str]],
    references: Lines,
    language: Language,
    test: Test,
) -> list[Result]:
    """Score and p of every system, in order; the first has no p."""
    _, columns = PairedTest(
        [(name, metric.prepare(lines, language)) for name, lines in systems.items()],
        {"": metric.scorer(language)},
        [metric.prepare(references, language)],
        SACREBLEU_NAMES[test],
    )()
    (results,) = (column for name, column in columns.items() if name != "System")
    return cast(list[Result], results)
