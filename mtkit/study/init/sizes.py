"""The Transformers that are chosen from, smallest first, and what each of them costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """A Transformer, and what there is to be for it to be worth its cost."""

    layers: int
    d_model: int
    ffn: int
    heads: int
    from_pairs: int
    from_tokens: float
    """Number of target tokens that it learns from in the time there is: with fewer, a smaller one
    gets further, as it makes more of them in that time.
    """

    @property
    def in_layers(self) -> int:
        """Number of parameters, those of embeddings and norms left out."""
        encoder = 4 * self.d_model**2 + 2 * self.d_model * self.ffn
        decoder = encoder + 4 * self.d_model**2
        return self.layers * (encoder + decoder)

    @property
    def is_published(self) -> bool:
        """Whether it is one of Vaswani et al. 2017, table 3."""
        return self.d_model >= 512

    def cost(self, vocabulary: int) -> float:
        """Of a target token, in millions of operations: how training time grows with the size.

        Six for each parameter in a product; and what is bound by memory grows with width and depth,
        by a factor that is right of models of 128, 192 and 512 to within a quarter.
        """
        products = 6e-6 * (self.in_layers + self.d_model * vocabulary)
        return products + 0.1 * self.layers * self.d_model

    def __str__(self) -> str:
        return f"{self.layers} + {self.layers} layers of {self.d_model}"


SIZES = (
    Size(2, 128, 256, 4, from_pairs=0, from_tokens=0),
    Size(4, 128, 256, 4, from_pairs=3_000, from_tokens=5e6),
    Size(4, 256, 1024, 4, from_pairs=100_000, from_tokens=4e7),
    Size(6, 512, 2048, 8, from_pairs=500_000, from_tokens=2e8),
    Size(6, 1024, 4096, 16, from_pairs=4_000_000, from_tokens=1e9),
)
"""Base and big are the last. 4 + 4 layers of 128 were measured on Multi30k in 6 to 100 passes of
half a million tokens; from there on it is five tokens for each parameter, or so.
"""
NOMINAL_VOCABULARY = 8000


def affordable(pairs: int, tokens: dict[Size, float]) -> Size:
    """The largest for so many pairs that sees enough of the target tokens which time allows it."""
    fitting = [
        size for size in SIZES if size.from_pairs <= pairs and size.from_tokens <= tokens[size]
    ]
    return max(fitting, key=SIZES.index, default=SIZES[0])
