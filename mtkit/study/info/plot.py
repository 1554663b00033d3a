"""`mtkit info --plot`: a run or config as a drawing, in a terminal or as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mtkit.batching.build import open_batches
from mtkit.batching.plan import PairLengths, Rows, padding, plan_epoch
from mtkit.config.batching import BatchingSettings
from mtkit.config.schedules import ScheduleInputs
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.models.folder import open_model
from mtkit.models.layers import compute_sinusoids
from mtkit.models.weights import load_model
from mtkit.study.plots.picture import figure, save
from mtkit.study.plots.terminal import Points, bars, curve, room, shades
from mtkit.training.metrics import MetricsLog, points_of

LOGGED = {
    "training loss": ("train", "loss"),
    "validation loss": ("valid", "loss"),
    "validation BLEU": ("valid", "bleu"),
    "validation chrF2": ("valid", "chrf"),
    "learning rate": ("train", "learning_rate"),
    "tokens per second": ("train", "tokens_per_second"),
}
"""The kind of record in metrics.jsonl and its field, by the name of the curve."""
MOST_POINTS = 1000
"""Updates that the curve of the learning rate goes through, besides the end of the warmup."""
MOST_RANGES = 20
"""Number of ranges of length that are told apart, besides that of the longest sentences."""
LONGEST_PERCENT = 0.5
"""Per cent of all sentences: the longest, which share the last range."""
DRAWN, DRAWN_IN_TERMINAL = 128, 32
"""Number of positions that are drawn, in a picture and in a terminal."""


@dataclass(frozen=True)
class Curves:
    """One or more curves over the updates of training, each in a panel of its own."""

    points: Mapping[str, Points]
    """Points (update, value) of each curve, by what the value is."""

    def text(self) -> Iterator[str]:
        for name, points in self.points.items():
            yield from (f"{name} by update", *curve(points), "")

    def draw(self, path: Path) -> None:
        columns = min(2, len(self.points))
        rows = -(-len(self.points) // columns)
        drawn, panels = figure(width=5 * columns, height=2.5 * rows, rows=rows, columns=columns)
        for panel, (name, points) in zip(panels, self.points.items(), strict=False):
            panel.plot(*zip(*points, strict=True), "." if len(points) == 1 else "-")
            panel.set_title(name, fontsize="medium")
            panel.set_xlabel("update")
        for panel in panels[len(self.points) :]:
            panel.remove()
        save(drawn, path)


def curves_of(run: Path, config: Config) -> Curves:
    """What metrics.jsonl holds; UserError where it holds nothing yet."""
    log = MetricsLog(run)
    records = log.read()
    found = {name: points for name, of in LOGGED.items() if (points := points_of(records, *of))}
    if not found:
        raise UserError(f"{log.path}: nothing logged there yet: train with `mtkit train`")
    return Curves(found)


def schedule_of(run: Path, config: Config) -> Curves:
    """The learning rate; that of `plateau` falls where the validations of the run so far let it.

    Raises UserError where epochs are to be counted, and there are no batches.
    """
    training = config.training
    records = MetricsLog(run).read()
    losses = [(int(step), loss) for step, loss in points_of(records, "valid", "loss")]
    total = training.steps
    if total is None:  # that of all epochs on one processor
        batches = len(lengths_of(run, config).plan)
        total = (training.epochs or 0) * -(-batches // training.accumulate)
    steps = {*range(1, total, -(-total // MOST_POINTS)), min(training.warmup, total), total}
    inputs = ScheduleInputs(training.warmup, total, config.model.d_model, losses)
    points = [(step, training.schedule.rate(step, inputs)) for step in sorted(steps)]
    return Curves({f"learning rate ({training.schedule.kind})": points})


@dataclass(frozen=True)
class CorpusLengths:
    lengths: PairLengths
    """Number of subwords of source and target of each sentence pair, (n, 2)."""
    plan: list[Rows]
    """The batches of the first epoch."""
    max_tokens: int

    @cached_property
    def edges(self) -> list[int]:
        """Bounds of the ranges: from each up to, but without, the next."""
        usual = int(np.percentile(self.lengths, 100 - LONGEST_PERCENT)) + 1
        return [*range(0, usual, -(-usual // MOST_RANGES)), int(self.lengths.max()) + 1]

    def counts(self) -> dict[str, list[int]]:
        """Number of sentences in each range, by side."""
        sides = zip(("source", "target"), self.lengths.T, strict=True)
        return {name: np.histogram(side, self.edges)[0].tolist() for name, side in sides}

    def waste(self) -> list[float]:
        """Per cent of padding in the batches whose longest sentence lies in each range."""
        batches: list[list[Rows]] = [[] for _ in self.edges[1:]]
        for rows in self.plan:
            batches[np.digitize(self.lengths[rows].max(), self.edges) - 1].append(rows)
        return [100 * padding(self.lengths, plan) for plan in batches]

    @property
    def title(self) -> str:
        share = padding(self.lengths, self.plan)
        return f"padding: {share:.1%} of {len(self.plan):,} batches of {self.max_tokens:,} tokens"

    def text(self) -> Iterator[str]:
        ranges = [f"{low}-{after - 1}" for low, after in pairwise(self.edges)]
        for name, counts in self.counts().items():
            yield f"sentences by subwords of the {name}"
            yield from bars(ranges, counts)
            yield ""
        yield f"{self.title}; % by subwords of a batch's longest sentence"
        yield from bars(ranges, self.waste())

    def draw(self, path: Path) -> None:
        drawn, (sentences, batches) = figure(height=6, rows=2)
        for name, counts in self.counts().items():
            sentences.stairs(counts, self.edges, label=name, linewidth=2)
        sentences.set_ylabel("sentences")
        sentences.legend()
        batches.stairs(self.waste(), self.edges, fill=True)
        below = "subwords of a sentence; of the longest in a batch"
        batches.set(xlabel=below, ylabel="% padding")
        batches.set_title(self.title, fontsize="medium")
        for panel in (sentences, batches):
            panel.set_xlim(0, 2 * self.edges[-2] - self.edges[-3])  # the last range goes on
        save(drawn, path)


def lengths_of(run: Path, config: Config) -> CorpusLengths:
    """The training data in RUN/batches, planned as the config says ("auto": as by default).

    Raises UserError without batches, or where a pair is over the budget.
    """
    batches, wanted = open_batches(run / "batches"), config.batching.max_tokens
    budget = BatchingSettings.model_fields["max_tokens"].default if wanted == "auto" else wanted
    lengths, weights = batches.train.lengths, batches.weights
    plan = plan_epoch(lengths, max_tokens=budget, seed=config.seed, epoch=0, weights=weights)
    return CorpusLengths(lengths, plan, budget)


@dataclass(frozen=True)
class Positions:
    table: Float[Tensor, "T D"]
    """The encoding of every position."""
    parts: Sequence[str] = ()
    """Names of the equal parts that the dimensions come in, where they do."""

    @property
    def reach(self) -> float:
        """The largest magnitude of a value: colours go as far on either side of 0."""
        return float(self.table.abs().max())

    def text(self) -> Iterator[str]:
        rows, dimensions = self.table[:DRAWN_IN_TERMINAL], self.table.shape[1]
        shown = torch.linspace(0, dimensions - 1, min(room(), dimensions)).round().long()
        yield f"positions 0 to {len(rows) - 1} downwards, {len(shown)} of {dimensions} dimensions"
        if self.parts:
            width = len(shown) // len(self.parts)
            yield "".join(part.center(width) for part in self.parts).rstrip()
        for row in rows[:, shown].tolist():
            yield shades(row, -self.reach, self.reach)

    def draw(self, path: Path) -> None:
        drawn, (panel,) = figure(width=8)
        image = panel.imshow(
            self.table.numpy(), cmap="RdBu_r", vmin=-self.reach, vmax=self.reach, aspect="auto"
        )
        panel.grid(visible=False)
        panel.set(xlabel="dimension", ylabel="position")
        if self.parts:
            width = self.table.shape[1] / len(self.parts)
            names = panel.secondary_xaxis("top")
            names.set_xticks([width * (i + 0.5) for i in range(len(self.parts))], self.parts)
            names.tick_params(length=0)
        drawn.colorbar(image, label="value")
        save(drawn, path)


def positions_of(run: Path, config: Config) -> Positions:
    """By the formula, or of the trained model where they are learned.

    Raises UserError for a model without, or that is not trained yet.
    """
    pair = config.model.as_pair()
    if not pair.has_positions:
        raise UserError("--plot positions: the model has none: it reads one word after the other")
    if pair.learned_positions is None:
        return Positions(compute_sinusoids(DRAWN, pair.d_model), ("sine", "cosine"))
    opened = open_model(run)
    model = load_model(opened.config, opened.weights)
    return Positions(model.positions(0, min(DRAWN, pair.learned_positions)).detach())


VIEWS: Mapping[str, Callable[[Path, Config], Curves | CorpusLengths | Positions]] = {
    "positions": positions_of,
    "schedule": schedule_of,
    "curves": curves_of,
    "lengths": lengths_of,
}
"""What is drawn: each can appear in a terminal by its `text`, and `draw` itself as a picture."""
