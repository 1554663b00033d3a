"""`mtkit info --plot`: a run or config as a plot, in the terminal or as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float
from torch import Tensor

from mtkit.batching.build import open_batches
from mtkit.batching.plan import PairLengths, Rows, padding, plan_epoch
from mtkit.config.schedules import ScheduleInputs
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.models.folder import open_model
from mtkit.models.layers import compute_sinusoids
from mtkit.models.weights import load_model
from mtkit.report import data_lines, plural
from mtkit.study.plots.picture import draw_curves, make_figure, save_picture
from mtkit.study.plots.terminal import Points, draw_sparklines
from mtkit.training.metrics import MetricsLog, points_of

LOGGED = {
    "training loss": ("train", "loss"),
    "validation loss": ("valid", "loss"),
    "validation BLEU": ("valid", "bleu"),
    "validation chrF2": ("valid", "chrf"),
    "learning rate": ("train", "learning_rate"),
    "tokens per second": ("train", "tokens_per_second"),
}
MAX_POINTS = 1000
"""Largest number of steps on the curve of a schedule, besides the end of the warmup."""
MAX_RANGES, LONG_PERCENT = 20, 0.5
"""Number of ranges of length, and per cent of all sentences that share one more: the longest."""
SHOWN_POSITIONS = 128


def plot_curves(run: Path, config: Config, output: Path | None) -> None:
    """Plot what metrics.jsonl holds; UserError if that is nothing."""
    log = MetricsLog(run)
    records = log.read()
    curves = {name: points for name, of in LOGGED.items() if (points := points_of(records, *of))}
    if not curves:
        raise UserError(f"{log.path} is empty, as nothing is logged yet; train with `mtkit train`")
    _show_curves(curves, output)


def plot_schedule(run: Path, config: Config, output: Path | None) -> None:
    """Plot the learning rate; that of `plateau` follows the validations of the run so far."""
    warmup = f"{plural(config.training.warmup, 'step')} of warmup"
    name = f"learning rate, {config.training.schedule.kind}, {warmup}"
    _show_curves({name: schedule(run, config)}, output)


def _show_curves(curves: Mapping[str, Points], output: Path | None) -> None:
    if output is not None:
        draw_curves([(name, "step", {name: points}) for name, points in curves.items()], output)
        return
    for name, points in curves.items():
        data_lines([*draw_sparklines(name, "step", {"": points}), ""])


def schedule(run: Path, config: Config) -> list[tuple[int, float]]:
    """Return steps and their learning rates; UserError without batches to count epochs by."""
    training = config.training
    losses = [
        (int(step), loss) for step, loss in points_of(MetricsLog(run).read(), "valid", "loss")
    ]
    total = training.steps
    if total is None:  # that of all epochs in one process
        batches = len(first_epoch(run, config)[1])
        total = (training.epochs or 0) * -(-batches // training.accumulate)
    steps = {*range(1, total, -(-total // MAX_POINTS)), min(training.warmup, total), total}
    inputs = ScheduleInputs(training.warmup, total, config.model.d_model, losses)
    return [(step, training.schedule.rate(step, inputs)) for step in sorted(steps)]


def length_histogram(lengths: PairLengths) -> dict[str, Points]:
    """Return lower bounds of ranges of length, and the number of sentences in each, by side.

    lengths: (n, 2). The last range has the longest sentences.
    """
    usual = int(np.percentile(lengths, 100 - LONG_PERCENT)) + 1
    bounds = [*range(0, usual, -(-usual // MAX_RANGES)), int(lengths.max()) + 1]
    sides = zip(("source", "target"), lengths.T, strict=True)
    counts = {name: np.histogram(side, bounds)[0].tolist() for name, side in sides}
    return {name: list(zip(bounds, of, strict=False)) for name, of in counts.items()}


def first_epoch(run: Path, config: Config) -> tuple[PairLengths, list[Rows], str]:
    """Return the lengths in RUN/batches, the batches of the first epoch, and a line on padding."""
    batches, budget = open_batches(run / "batches"), config.batching.max_tokens
    lengths, weights = batches.train.lengths, batches.weights
    plan = plan_epoch(lengths, max_tokens=budget, seed=config.seed, epoch=0, weights=weights)
    share = padding(lengths, plan)
    batched = f"{plural(len(plan), 'batch')} of {budget:,} tokens"
    return lengths, plan, f"{share:.1%} padding in {batched}"


def plot_corpus_lengths(run: Path, config: Config, output: Path | None) -> None:
    """Plot how many sentences are how long, in subwords."""
    lengths, _, padded = first_epoch(run, config)
    curves = length_histogram(lengths)
    longest, _ = curves["source"][-1]
    axis = f"subwords (last: {longest:,} and more)"
    if output is not None:
        draw_curves([(f"sentences by length; {padded}", axis, curves)], output)
        return
    data_lines([*draw_sparklines("sentences by length", axis, curves), padded])


def position_encodings(run: Path, config: Config) -> Float[Tensor, "T D"]:
    """Return the encodings, by formula or of the run's model; UserError if there are none."""
    pair = config.model.as_pair()
    if not pair.has_positions:
        raise UserError("model.kind: a recurrent model has no positional encodings to plot")
    if pair.learned_positions is None:
        return compute_sinusoids(SHOWN_POSITIONS, pair.d_model)
    opened = open_model(run)
    model = load_model(opened.config, opened.weights)
    table: Tensor = model.positions(0, min(SHOWN_POSITIONS, pair.learned_positions))
    return table.detach()


def plot_positions(run: Path, config: Config, output: Path | None) -> None:
    """Draw the positional encodings, a row for each position; UserError without `output`."""
    if output is None:
        raise UserError("--plot positions makes only a picture; give a file with -o")
    table = position_encodings(run, config)
    limit, dimensions = float(table.abs().max()), table.shape[1]
    drawn, (panel,) = make_figure(width=8)
    image = panel.imshow(table.numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    panel.grid(visible=False)
    panel.set(xlabel="dimension", ylabel="position")
    if config.model.as_pair().learned_positions is None:
        top = panel.secondary_xaxis("top")
        top.set_xticks([dimensions / 4, 3 * dimensions / 4], ("sine", "cosine"))
        top.tick_params(length=0)
        panel.set_xlabel("dimension (sines first; papers alternate sines and cosines)")
    drawn.colorbar(image, label="value")
    save_picture(drawn, output)


PLOTS: Mapping[str, Callable[[Path, Config, Path | None], None]] = {
    "positions": plot_positions,
    "schedule": plot_schedule,
    "curves": plot_curves,
    "lengths": plot_corpus_lengths,
}
