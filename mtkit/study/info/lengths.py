"""How long the sentences of a corpus are, and how much of its batches is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np

from mtkit.batching.build import open_batches
from mtkit.batching.plan import Lengths, Rows, padding, plan_epoch
from mtkit.config.data import BatchingSettings
from mtkit.config.settings import Config
from mtkit.study.info.view import View
from mtkit.study.plots.picture import figure, save
from mtkit.study.plots.terminal import bars

MOST_RANGES = 20
"""Number of ranges of length that are told apart, besides that of the longest sentences."""
LONGEST_PERCENT = 0.5
"""Per cent of all sentences: the longest, which share the last range."""
SIDES = ("source", "target")

Value = TypeVar("Value", int, float)


@dataclass(frozen=True)
class CorpusLengths(View):
    lengths: Lengths
    """Number of subwords of source and target of each sentence pair, (n, 2)."""
    plan: list[Rows]
    """The batches of the first epoch."""
    max_tokens: int

    @cached_property
    def edges(self) -> list[int]:
        """Bounds of the ranges: from each up to, but without, the next."""
        usual = int(np.percentile(self.lengths, 100 - LONGEST_PERCENT)) + 1
        return [*range(0, usual, -(-usual // MOST_RANGES)), int(self.lengths.max()) + 1]

    def counts(self, side: int) -> dict[str, int]:
        """Number of sentences by range; `side` is 0 for the source, 1 for the target."""
        found: list[int] = np.histogram(self.lengths[:, side], self.edges)[0].tolist()
        return self._by_range(found)

    def waste(self) -> dict[str, float]:
        """Per cent of padding in the batches whose longest sentence lies in each range."""
        batches: list[list[Rows]] = [[] for _ in self.edges[1:]]
        for rows in self.plan:
            place = np.searchsorted(self.edges, self.lengths[rows].max(), side="right") - 1
            batches[place].append(rows)
        return self._by_range([100 * padding(self.lengths, plan) for plan in batches])

    def _by_range(self, values: Sequence[Value]) -> dict[str, Value]:
        names = (f"{low}-{after - 1}" for low, after in pairwise(self.edges))
        return dict(zip(names, values, strict=True))

    @property
    def title(self) -> str:
        share = padding(self.lengths, self.plan)
        return f"padding: {share:.1%} of {len(self.plan):,} batches of {self.max_tokens:,} tokens"

    def text(self) -> Iterator[str]:
        for side, name in enumerate(SIDES):
            yield f"sentences by subwords of the {name}"
            yield from bars(self.counts(side))
            yield ""
        yield f"{self.title}; % by subwords of a batch's longest sentence"
        yield from bars(self.waste())

    def draw(self, path: Path) -> None:
        drawn, (sentences, batches) = figure(height=6, rows=2)
        for side, name in enumerate(SIDES):
            counts = list(self.counts(side).values())
            sentences.stairs(counts, self.edges, label=name, linewidth=2)
        sentences.set_ylabel("sentences")
        sentences.legend()
        batches.stairs(list(self.waste().values()), self.edges, fill=True)
        batches.set_ylabel("% padding")
        batches.set_title(self.title, fontsize="medium")
        batches.set_xlabel("subwords of a sentence; of the longest in a batch")
        for panel in (sentences, batches):
            panel.set_xlim(0, 2 * self.edges[-2] - self.edges[-3])  # the last range goes on
        save(drawn, path)


def lengths_of(run: Path, config: Config) -> CorpusLengths:
    """The training data in RUN/batches, planned as the config says ("auto": as by default).

    Raises UserError without batches, or where a pair is over the budget.
    """
    batches, wanted = open_batches(run / "batches"), config.batching.max_tokens
    budget = BatchingSettings.model_fields["max_tokens"].default if wanted == "auto" else wanted
    plan = plan_epoch(
        batches.train.lengths,
        max_tokens=budget,
        seed=config.seed,
        epoch=0,
        weights=batches.weights,
    )
    return CorpusLengths(batches.train.lengths, plan, budget)
