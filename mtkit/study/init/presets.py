"""The models that `mtkit init` chooses from, and the settings that go with them.

Choices for small corpora were measured on Multi30k and Tatoeba (configs/RESULTS.md). Those for
millions of pairs are from Vaswani et al. 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """A Transformer, and how much it needs to be worth its cost."""

    min_pairs: int
    min_tokens: float
    """Target tokens that training has time for, over all epochs."""
    layers: int
    d_model: int
    ffn: int
    heads: int
    dropout: float | None = None
    """As in Vaswani et al. 2017, for the models of that paper; None: it depends on the epochs."""

    @property
    def is_published(self) -> bool:
        """Whether the model is trained as in Vaswani et al. 2017."""
        return self.dropout is not None

    def cost(self, vocabulary: int) -> float:
        """Return the operations per target token, in millions: training time grows with them.

        Six for each parameter in a product. The last term is for work that memory limits: it was
        fitted to models of width 128, 192 and 512, within a quarter.
        """
        per_layer = 12 * self.d_model**2 + 4 * self.d_model * self.ffn
        products = 6e-6 * (self.layers * per_layer + self.d_model * vocabulary)
        return products + 0.1 * self.layers * self.d_model

    def __str__(self) -> str:
        return f"{self.layers} + {self.layers} layers of width {self.d_model}"


PRESETS = (
    Preset(0, 0.0, 2, 128, 256, 4),
    Preset(3_000, 5e6, 4, 128, 256, 4),
    Preset(100_000, 4e7, 4, 256, 1024, 4),
    Preset(500_000, 2e8, 6, 512, 2048, 8, dropout=0.1),  # base
    Preset(4_000_000, 1e9, 6, 1024, 4096, 16, dropout=0.3),  # big
)
NOMINAL_VOCABULARY = 8_000
"""Presets are compared at this vocabulary."""
VOCABULARY_BY_PAIRS = (
    (2_000_000, 32_000),
    (500_000, 16_000),
    (15_000, 8_000),
    (5_000, 4_000),
    (0, 2_000),
)
"""From so many pairs on: the subwords of a vocabulary that both sides share."""
DROPOUT_BY_EPOCHS = (
    (60, (0.2, 0.1, 0.1)),
    (24, (0.2, 0.0, 0.0)),
    (5, (0.1, 0.0, 0.0)),
    (0, (0.0, 0.0, 0.0)),
)
"""From so many epochs on: dropout, attention dropout and activation dropout."""
FEW_EPOCHS = 5
"""With fewer epochs, more time would give a better model."""


def max_epochs(pairs: int) -> int:
    """Return the epochs beyond which more training is not known to help.

    100 for the 29,000 pairs of Multi30k, 17 for the millions of Vaswani et al. 2017.
    """
    return round(min(100.0, max(17.0, 100 * math.pow(29_000 / pairs, 0.35))))
