"""What a model can be expected to be like, in words, by the number of pairs it learns from.

Figures are of single domains and careful text: Multi30k (configs/RESULTS.md), German to English on
parts of IWSLT14 (Sennrich and Zhang 2019), WMT14 (Vaswani et al. 2017).
"""

from __future__ import annotations

from collections.abc import Iterator

from mtkit.study.init.choice import FEW_PASSES, Plan, most_passes

MORE_DATA = (
    "what would help: more pairs from the same kind of text, and pairs of other texts beside them "
    "(opus.nlpl.eu has some for most pairs of languages); `mtkit export --from huggingface` takes "
    "a model that somebody trained on millions of pairs"
)
BY_PAIRS = (
    (
        2_000,
        "too few pairs for a translator: expect it to get some words right, in sentences much like "
        "those that it has seen, and to invent the rest",
    ),
    (
        10_000,
        "few pairs: expect the gist of short sentences of one narrow subject, and nonsense "
        "elsewhere (3,000 pairs of picture captions give 20 BLEU in five minutes; 5,000 of talks "
        "gave 16.6 at best in Sennrich and Zhang 2019)",
    ),
    (
        50_000,
        "enough for one narrow subject: 10,000 pairs of short picture captions give 28 BLEU in "
        "five minutes, 29,000 give 36, and 39 in twenty; of long or mixed sentences expect 5 to 20",
    ),
    (
        300_000,
        "enough for one domain: 160,000 pairs of talks give 33 to 35 BLEU after hours, less in "
        "minutes; text of other kinds will be translated badly",
    ),
    (
        2_000_000,
        "enough for a usable translator of texts like these, given hours on many cores, or a GPU",
    ),
    (
        1 << 62,
        "enough for a good translator, given a GPU: 4.5 million pairs of news gave 27.3 BLEU "
        "(base) and 28.4 (big) in Vaswani et al. 2017",
    ),
)
ENOUGH_PAIRS = 10_000


def expectation(plan: Plan, pairs: int, minutes: float) -> Iterator[str]:
    """Lines for the person who waits; `pairs`: number of pairs that there are to learn from."""
    yield next(text for fewer, text in BY_PAIRS if pairs < fewer)
    if pairs < ENOUGH_PAIRS:
        yield MORE_DATA
    if plan.forecast.total > 1.15 * 60 * minutes:
        yield (
            f"{minutes:g} minutes are too few: it takes {plan.forecast.total / 60:.3g} at the least"
        )
    elif plan.pairs < pairs and plan.passes < 0.95:
        yield f"{plan.pairs:,} of the {pairs:,} pairs are taken, and there is no time to see all"
    elif plan.pairs < pairs:
        yield f"the time is enough to see {plan.pairs:,} of the {pairs:,} pairs: no more are taken"
    elif plan.passes < min(FEW_PASSES, most_passes(pairs)):
        yield f"with more --minutes it becomes better: {plan.times} passes are few"
    elif plan.forecast.total < 0.85 * 60 * minutes:
        yield (
            f"done in {plan.forecast.total / 60:.0f} of the {minutes:g} minutes: "
            "more passes over so few pairs are not known to help"
        )
