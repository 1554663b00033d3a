"""A picture of scores by source length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtkit.scoring.score import BUCKET_METRICS, SystemScores
from mtkit.study.plots.picture import add_legend, make_figure, save_picture


def plot_lengths(systems: Sequence[SystemScores], path: Path) -> None:
    """Draw a panel per metric: a line per system with intervals, over buckets of lengths.

    Raises:
        UserError: the picture cannot be saved there.
    """
    labels = [f"{bucket.label}\n{len(bucket.rows):,}" for bucket in systems[0].by_length]
    drawn, panels = make_figure(
        width=5 * len(BUCKET_METRICS), height=4, columns=len(BUCKET_METRICS)
    )
    for key, panel in zip(BUCKET_METRICS, panels, strict=True):
        for place, system in enumerate(systems):
            scores = [bucket.scores[key] for bucket in system.by_length]
            values = np.array([score.value for score in scores])
            lows, highs = np.array([score.interval or [score.value] * 2 for score in scores]).T
            shift = 0.08 * (place - (len(systems) - 1) / 2)  # so that no bar hides another
            reach = np.maximum(0, [values - lows, highs - values])  # an interval may miss its score
            where = np.arange(len(scores)) + shift
            panel.errorbar(where, values, reach, fmt="o-", label=system.name)
            panel.set_ylabel(scores[0].name)
        panel.set_xticks(range(len(labels)), labels)
        panel.set_xlabel("words of the source, and number of lines")
        panel.set_ylim(bottom=0)
    add_legend(drawn, panels[0])
    save_picture(drawn, path)
