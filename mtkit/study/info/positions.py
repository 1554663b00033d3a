"""The positional encodings of a Transformer, as a map."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Float
from torch import Tensor

from mtkit.config.model import Seq2SeqSettings, TransformerSettings
from mtkit.config.settings import Config
from mtkit.decoding.engines.pytorch import load_weights_of
from mtkit.decoding.model import open_model
from mtkit.errors import UserError
from mtkit.models.layers import sinusoids
from mtkit.models.transformer import Transformer
from mtkit.study.info.view import View
from mtkit.study.plots.picture import figure
from mtkit.study.plots.terminal import WIDTH, shades

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTH = 128
"""Positions that are drawn."""
ROWS = 32
"""Those of them in a terminal."""


@dataclass(frozen=True)
class Positions(View):
    table: Float[Tensor, "T D"]

    def text(self) -> Iterator[str]:
        rows, dimensions = self.table[:ROWS], self.table.shape[1]
        shown = torch.linspace(0, dimensions - 1, min(WIDTH, dimensions)).round().long()
        reach = float(self.table.abs().max())
        yield f"positions 0 to {len(rows) - 1} downwards, {len(shown)} of {dimensions} dimensions"
        yield from shades(rows[:, shown].tolist(), -reach, reach)

    def figure(self) -> Figure:
        drawn, (panel,) = figure(width=8)
        reach = float(self.table.abs().max())
        image = panel.imshow(
            self.table.numpy(), cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto"
        )
        panel.grid(visible=False)
        panel.set_xlabel("dimension")
        panel.set_ylabel("position")
        drawn.colorbar(image)
        return drawn


def positions_of(run: Path, config: Config) -> Positions:
    """By the formula, or of the trained model where they are learned.

    Raises UserError for a model without, or that is not trained yet.
    """
    match config.model:
        case TransformerSettings(positions="sinusoidal", d_model=d_model):
            return Positions(sinusoids(LENGTH, d_model))
        case TransformerSettings(max_positions=longest):
            model = cast(Transformer, load_weights_of(open_model(run)))
            return Positions(model.positions(0, min(LENGTH, longest)).detach())
        case Seq2SeqSettings():
            raise UserError("--plot positions: an LSTM has none: it reads one word after the other")
