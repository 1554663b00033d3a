"""Attention weights of a sentence pair: heat maps between words, by layer and head.

A subword that begins with SentencePiece's space symbol begins a word. Scripts without spaces have
no such symbols: there every subword is a word. (Alignments are between words that white space
separates: `mtkit.decoding.sentences.Words`.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.decoding.forced import teacher_force
from mtkit.decoding.sentences import UNSPACED
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.report import printable
from mtkit.symbols import SPACE

AttentionKind = Literal["cross", "encoder", "decoder"]
"""Cross-attention, self-attention of the encoder, or masked self-attention of the decoder."""
EDGES_BY_KIND: dict[AttentionKind, tuple[str, str]] = {
    "cross": ("target words", "source words"),
    "encoder": ("source words", "source words"),
    "decoder": ("target words", "earlier target words"),
}
"""What the queries (rows) and the keys (columns) of a heat map are."""
_BYTE = re.compile("<0x([0-9A-F]{2})>")


@dataclass(frozen=True)
class Labels:
    """The words, or subwords, along an edge of a heat map."""

    texts: list[str]
    """The words as they can be shown anywhere, without control characters."""
    of_subword: list[int]
    """The number of the word that each subword belongs to."""

    def __add__(self, later: Labels) -> Labels:
        shifted = [len(self.texts) + number for number in later.of_subword]
        return Labels([*self.texts, *later.texts], [*self.of_subword, *shifted])


def label_subwords(pieces: Sequence[str]) -> Labels:
    """Return every subword as a label of its own."""
    return Labels([printable(piece) for piece in pieces], list(range(len(pieces))))


def label_words(pieces: Sequence[str]) -> Labels:
    """Return the words that the subwords make up."""
    words: list[list[str]] = []
    for piece in pieces:
        if not words or piece.startswith(SPACE) or _ends_unspaced_word(words[-1], piece):
            words.append([])
        words[-1].append(piece)
    of_subword = [number for number, word in enumerate(words) for _ in word]
    return Labels([printable(_spell(word)) for word in words], of_subword)


def _ends_unspaced_word(word: Sequence[str], piece: str) -> bool:
    return word != [SPACE] and bool(UNSPACED.match(word[-1][-1]) or UNSPACED.match(piece))


def _spell(pieces: Sequence[str]) -> str:
    matches = ((piece, _BYTE.fullmatch(piece)) for piece in pieces)
    raw = (bytes.fromhex(byte[1]) if byte else piece.encode() for piece, byte in matches)
    return b"".join(raw).decode(errors="replace").removeprefix(SPACE) or SPACE


@dataclass(frozen=True)
class HeatMap:
    """The attention of queries (words) to keys, by layer and head."""

    kind: AttentionKind
    queries: list[str]
    keys: list[str]
    weights: Float[Tensor, "L H J I"]
    """Weights of J queries and I keys by layer and head; rows sum to 1."""
    titles: Sequence[str] = ()
    """What each map shows, row by row, once maps are selected."""


@dataclass(frozen=True)
class MapSelection:
    """Which attention maps are shown, by numbers from 1; empty: all. `average`: their mean."""

    kind: AttentionKind = "cross"
    layers: Sequence[int] = ()
    heads: Sequence[int] = ()
    average: bool = False

    def select(self, maps: Mapping[AttentionKind, HeatMap]) -> HeatMap:
        """Return the selected maps; UserError if the model has no such attention, layer or head."""
        if self.kind not in maps:
            raise UserError(f"the model has no {self.kind} attention, only {', '.join(maps)}")
        weights = maps[self.kind].weights
        layers = _check_numbers("layer", self.layers, weights.shape[0])
        heads = _check_numbers("head", self.heads, weights.shape[1])
        weights = weights[[layer - 1 for layer in layers]][:, [head - 1 for head in heads]]
        titles = [f"layer {layer}, head {head}" for layer, head in product(layers, heads)]
        if self.average and len(titles) > 1:
            weights = weights.mean(dim=(0, 1), keepdim=True)
            titles = [f"mean of {_name('layer', layers)} and {_name('head', heads)}"]
        return replace(maps[self.kind], weights=weights, titles=titles)


CROSS_ATTENTION = MapSelection()
"""Cross-attention of all layers and heads."""


def _name(name: str, numbers: Sequence[int]) -> str:
    return f"{name}{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _check_numbers(name: str, numbers: Sequence[int], count: int) -> Sequence[int]:
    every = range(1, count + 1)
    for number in numbers:
        if number not in every:
            raise UserError(f"{name} {number}: this attention has {_name(name, every)}")
    return numbers or every


@torch.inference_mode()
def attention_weights(
    model: EncoderDecoder, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> dict[AttentionKind, Float[Tensor, "L H Q K"]]:
    """Return the weights of every kind of attention that the model has, in float32 on the CPU.

    Both `source` and `target` end in EOS: there is a query for each symbol that is predicted.
    """
    memory, decoded = teacher_force(model, source, target, encoder=True)
    weights: dict[AttentionKind, Tensor | None] = {
        "cross": decoded.attention,
        "encoder": torch.stack(memory.attention, dim=1) if memory.attention else None,
        "decoder": decoded.self_attention,
    }
    return {kind: of[0].float().cpu() for kind, of in weights.items() if of is not None}
