"""All attention weights of a sentence pair, and those of one kind as maps between words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.decoding.alignment.words import merge
from mtkit.decoding.forced import force
from mtkit.errors import UserError
from mtkit.models.base import TranslationModel
from mtkit.study.attend.words import Segments

Kind = Literal["cross", "encoder", "decoder"]
"""Encoder-decoder attention, the encoder's self-attention, the decoder's masked self-attention."""
SIDES: dict[Kind, tuple[str, str]] = {
    "cross": ("words that are written", "words of the source"),
    "encoder": ("words of the source", "words of the source"),
    "decoder": ("words that are written", "words written before"),
}
"""Which words look (the queries), and which are looked at (the keys)."""


@dataclass(frozen=True)
class HeatMap:
    """Where the words of a sentence look in another, or in the same one: a map for each head."""

    kind: Kind
    queries: list[str]
    """The words that look. On the target side: the word that is being written."""
    keys: list[str]
    """The words that are looked at."""
    weights: Float[Tensor, "L H J I"]
    """Weight that each of J queries gives to each of I keys, by layer and head; rows sum to 1."""
    layers: Sequence[int]
    """Numbers of the layers that `weights` are of, counted from 1."""
    heads: Sequence[int]
    """Numbers of the heads that `weights` are of, counted from 1."""

    @classmethod
    def of(
        cls, kind: Kind, weights: Float[Tensor, "L H Q K"], queries: Segments, keys: Segments
    ) -> HeatMap:
        """From weights between subwords, and the words that those make up."""
        merged = merge(weights.numpy(), queries.of_subword, keys.of_subword)
        layers, heads = (range(1, count + 1) for count in weights.shape[:2])
        return cls(kind, queries.texts, keys.texts, torch.from_numpy(merged), layers, heads)

    def only(self, layers: Sequence[int], heads: Sequence[int]) -> HeatMap:
        """The maps of these layers and heads, by their numbers; of all, where none is named."""
        layers, heads = layers or self.layers, heads or self.heads
        rows = [_place("layer", number, self.layers) for number in layers]
        columns = [_place("head", number, self.heads) for number in heads]
        return replace(self, weights=self.weights[rows][:, columns], layers=layers, heads=heads)

    def averaged(self) -> HeatMap:
        """The mean of all layers and heads, as if it were the only one."""
        return replace(self, weights=self.weights.mean(dim=(0, 1), keepdim=True))

    @property
    def titles(self) -> list[str]:
        """What each map is of, row by row."""
        if self.weights.shape[:2] == (len(self.layers), len(self.heads)):
            return [
                f"layer {layer}, head {head}" for layer, head in product(self.layers, self.heads)
            ]
        return [f"mean of {_named('layer', self.layers)} and {_named('head', self.heads)}"]


@dataclass(frozen=True)
class Aspect:
    """Which maps of a sentence are shown."""

    kind: Kind | None = None
    """The kind of attention; None: encoder-decoder attention."""
    layers: Sequence[int] = ()
    """Numbers of layers, counted from 1; none: all."""
    heads: Sequence[int] = ()
    """Numbers of heads, counted from 1; none: all."""
    average: bool = False
    """Whether one map shows the mean of all of them."""

    def of(self, maps: Mapping[Kind, HeatMap]) -> HeatMap:
        """These of all maps; UserError for what is not there."""
        kind = self.kind or "cross"
        if kind not in maps:
            there = ", ".join(maps)
            raise UserError(f"--kind {kind}: the model has no such attention, only {there}")
        chosen = maps[kind].only(self.layers, self.heads)
        return chosen.averaged() if self.average else chosen


def _place(name: str, number: int, numbers: Sequence[int]) -> int:
    if number not in numbers:
        raise UserError(f"--{name} {number}: this attention has {_named(name, numbers)}")
    return numbers.index(number)


def _named(name: str, numbers: Sequence[int]) -> str:
    """Such as "layer 2", "layers 1-3" or "layers 1, 3"."""
    if len(numbers) == 1:
        return f"{name} {numbers[0]}"
    is_run = list(numbers) == list(range(numbers[0], numbers[-1] + 1))
    return f"{name}s {f'{numbers[0]}-{numbers[-1]}' if is_run else ', '.join(map(str, numbers))}"


@torch.inference_mode()
def all_weights(
    model: TranslationModel, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> dict[Kind, Float[Tensor, "L H Q K"]]:
    """By kind, of those that the model has; float32, on the CPU.

    Both `source` and `target` end in EOS: there is a query for each symbol that is written.
    """
    memory, decoded = force(model, source, target, encoder=True)
    found: dict[Kind, Tensor | None] = {
        "cross": decoded.attention,
        "encoder": torch.stack(memory.attention, dim=1) if memory.attention else None,
        "decoder": decoded.self_attention,
    }
    return {
        kind: weights[0].float().cpu() for kind, weights in found.items() if weights is not None
    }
