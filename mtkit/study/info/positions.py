"""The positional encodings of a model, as a map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from mtkit.config.settings import Config
from mtkit.decoding.engines.pytorch import load_weights_of
from mtkit.decoding.model import open_model
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.layers import sinusoids
from mtkit.study.info.view import View
from mtkit.study.plots.picture import figure, save
from mtkit.study.plots.terminal import WIDTH, shades

DRAWN, DRAWN_IN_TERMINAL = 128, 32
"""Number of positions that are drawn, in a picture and in a terminal."""


@dataclass(frozen=True)
class Positions(View):
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
        shown = torch.linspace(0, dimensions - 1, min(WIDTH, dimensions)).round().long()
        yield f"positions 0 to {len(rows) - 1} downwards, {len(shown)} of {dimensions} dimensions"
        if self.parts:
            width = len(shown) // len(self.parts)
            yield "".join(part.center(width) for part in self.parts).rstrip()
        yield from shades(rows[:, shown].tolist(), -self.reach, self.reach)

    def draw(self, path: Path) -> None:
        drawn, (panel,) = figure(width=8)
        image = panel.imshow(
            self.table.numpy(), cmap="RdBu_r", vmin=-self.reach, vmax=self.reach, aspect="auto"
        )
        panel.grid(visible=False)
        panel.set_xlabel("dimension")
        panel.set_ylabel("position")
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
    pair = config.model.halves()
    if not pair.has_positions:
        raise UserError("--plot positions: the model has none: it reads one word after the other")
    if pair.longest is None:
        return Positions(sinusoids(DRAWN, pair.d_model), ("sine", "cosine"))
    model = cast(EncoderDecoder, load_weights_of(open_model(run)))
    return Positions(model.positions(0, min(DRAWN, pair.longest)).detach())
