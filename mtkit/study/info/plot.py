"""`mtkit info --plot`: a run or config as a plot, in the terminal or as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from mtkit.report import data_lines
from mtkit.study.plots.picture import draw_curves, make_figure, save_picture
from mtkit.study.plots.terminal import Points, draw_bars, draw_curve, draw_shades, plot_width
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
MAX_POINTS = 1000
"""Largest number of steps on the curve of a schedule, besides the end of the warmup."""
MAX_RANGES, LONGEST_PERCENT = 20, 0.5
"""Number of ranges of length, and per cent of all sentences that share one more: the longest."""
SHOWN_POSITIONS, TERMINAL_POSITIONS = 128, 32
"""Number of positions in a picture and in the terminal."""


def plot_curves(run: Path, config: Config, output: Path | None) -> None:
    """Plot what metrics.jsonl holds.

    Raises:
        UserError: nothing has been logged.
    """
    log = MetricsLog(run)
    records = log.read()
    curves = {name: points for name, of in LOGGED.items() if (points := points_of(records, *of))}
    if not curves:
        raise UserError(f"{log.path}: nothing logged yet: train with `mtkit train`")
    _show_curves(curves, output)


def plot_schedule(run: Path, config: Config, output: Path | None) -> None:
    """Plot the learning rate; that of `plateau` follows the validations of the run so far."""
    _show_curves(
        {f"learning rate ({config.training.schedule.kind})": schedule(run, config)}, output
    )


def _show_curves(curves: Mapping[str, Points], output: Path | None) -> None:
    if output is not None:
        draw_curves([(name, "step", {name: points}) for name, points in curves.items()], output)
    for name, points in curves.items() if output is None else ():
        data_lines([f"{name} by step", *draw_curve(points), ""])


def schedule(run: Path, config: Config) -> list[tuple[int, float]]:
    """Return steps and their learning rates.

    Raises:
        UserError: the length of the run is given in epochs, and there are no batches to count.
    """
    training = config.training
    losses = [
        (int(step), loss) for step, loss in points_of(MetricsLog(run).read(), "valid", "loss")
    ]
    total = training.steps
    if total is None:  # that of all epochs in one process
        batches = len(corpus_lengths(run, config).plan)
        total = (training.epochs or 0) * -(-batches // training.accumulate)
    steps = {*range(1, total, -(-total // MAX_POINTS)), min(training.warmup, total), total}
    inputs = ScheduleInputs(training.warmup, total, config.model.d_model, losses)
    return [(step, training.schedule.rate(step, inputs)) for step in sorted(steps)]


@dataclass(frozen=True)
class CorpusLengths:
    """Lengths of the training data, and the batches of its first epoch."""

    lengths: PairLengths
    """Number of subwords of source and target of each sentence pair, (n, 2)."""
    plan: list[Rows]
    max_tokens: int

    @cached_property
    def edges(self) -> list[int]:
        """Bounds of the ranges of length: from each one up to, but without, the next."""
        usual = int(np.percentile(self.lengths, 100 - LONGEST_PERCENT)) + 1
        return [*range(0, usual, -(-usual // MAX_RANGES)), int(self.lengths.max()) + 1]

    def counts(self) -> dict[str, list[int]]:
        """Return the number of sentences in each range, by side."""
        sides = zip(("source", "target"), self.lengths.T, strict=True)
        return {name: np.histogram(side, self.edges)[0].tolist() for name, side in sides}

    def padding_percent(self) -> list[float]:
        """Return the padding of the batches whose longest sentence lies in each range."""
        batches: list[list[Rows]] = [[] for _ in self.edges[1:]]
        for rows in self.plan:
            batches[np.digitize(self.lengths[rows].max(), self.edges) - 1].append(rows)
        return [100 * padding(self.lengths, plan) for plan in batches]


def corpus_lengths(run: Path, config: Config) -> CorpusLengths:
    """Return the lengths in RUN/batches, planned as the config says ("auto": the default budget).

    Raises:
        UserError: there are no batches, or a pair is over the budget.
    """
    batches, budget = open_batches(run / "batches"), config.batching.max_tokens
    if budget == "auto":
        budget = BatchingSettings.model_fields["max_tokens"].default
    lengths, weights = batches.train.lengths, batches.weights
    plan = plan_epoch(lengths, max_tokens=budget, seed=config.seed, epoch=0, weights=weights)
    return CorpusLengths(lengths, plan, budget)


def plot_corpus_lengths(run: Path, config: Config, output: Path | None) -> None:
    """Plot how many sentences are how long, and the padding of batches by their longest."""
    data = corpus_lengths(run, config)
    share = padding(data.lengths, data.plan)
    title = f"padding: {share:.1%} of {len(data.plan):,} batches of {data.max_tokens:,} tokens"
    if output is None:
        ranges = [f"{low}-{after - 1}" for low, after in pairwise(data.edges)]
        for name, counts in data.counts().items():
            data_lines([f"sentences by subwords of the {name}", *draw_bars(ranges, counts), ""])
        data_lines([f"{title}; % by length of the longest sentence of a batch, in subwords"])
        data_lines(draw_bars(ranges, data.padding_percent()))
        return
    drawn, (sentences, batches) = make_figure(height=6, rows=2)
    for name, counts in data.counts().items():
        sentences.stairs(counts, data.edges, label=name, linewidth=2)
    sentences.set(xlabel="subwords", ylabel="sentences")
    sentences.legend()
    batches.stairs(data.padding_percent(), data.edges, fill=True)
    batches.set(xlabel="subwords of the longest sentence of a batch", ylabel="% padding")
    batches.set_title(title, fontsize="medium")
    for panel in (sentences, batches):
        panel.set_xlim(0, 2 * data.edges[-2] - data.edges[-3])  # the last range extends beyond
    save_picture(drawn, output)


def position_encodings(run: Path, config: Config) -> Float[Tensor, "T D"]:
    """Return the encoding of every position: by formula, or learned by the model of the run.

    Raises:
        UserError: the architecture has no positions, or the model that learns them is missing.
    """
    pair = config.model.as_pair()
    if not pair.has_positions:
        raise UserError("model.kind: has no positional encodings: it reads word after word")
    if pair.learned_positions is None:
        return compute_sinusoids(SHOWN_POSITIONS, pair.d_model)
    opened = open_model(run)
    model = load_model(opened.config, opened.weights)
    table: Tensor = model.positions(0, min(SHOWN_POSITIONS, pair.learned_positions))
    return table.detach()


def plot_positions(run: Path, config: Config, output: Path | None) -> None:
    """Plot the positional encodings: a row for each position."""
    table = position_encodings(run, config)
    halves = () if config.model.as_pair().learned_positions else ("sine", "cosine")
    limit, dimensions = float(table.abs().max()), table.shape[1]
    if output is None:
        rows = table[:TERMINAL_POSITIONS]
        shown = torch.linspace(0, dimensions - 1, min(plot_width(), dimensions)).round().long()
        title = f"positions 0 to {len(rows) - 1} downwards, {len(shown)} of {dimensions} dimensions"
        names = "".join(half.center(len(shown) // 2) for half in halves).rstrip()
        maps = (draw_shades(row, -limit, limit) for row in rows[:, shown].tolist())
        data_lines([title, *([names] if names else []), *maps])
        return
    drawn, (panel,) = make_figure(width=8)
    image = panel.imshow(table.numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    panel.grid(visible=False)
    panel.set(xlabel="dimension", ylabel="position")
    if halves:
        top = panel.secondary_xaxis("top")
        top.set_xticks([dimensions / 4, 3 * dimensions / 4], halves)
        top.tick_params(length=0)
    drawn.colorbar(image, label="value")
    save_picture(drawn, output)


PLOTS: Mapping[str, Callable[[Path, Config, Path | None], None]] = {
    "positions": plot_positions,
    "schedule": plot_schedule,
    "curves": plot_curves,
    "lengths": plot_corpus_lengths,
}
"""What `--plot` draws."""
