"""All attention weights of a sentence pair, and those of one kind as maps between words.

Words are what people see. A subword that begins with SentencePiece's mark of a space begins a word.
Text without spaces has no marks: there every subword is a word, or a sentence would be one.
(Alignments are of the words that white space separates: `mtkit.decoding.sentences.Words`.)
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

Kind = Literal["cross", "encoder", "decoder"]
"""Encoder-decoder attention, the encoder's self-attention, the decoder's masked self-attention."""
SIDES: dict[Kind, tuple[str, str]] = {
    "cross": ("words that are written", "words of the source"),
    "encoder": ("words of the source", "words of the source"),
    "decoder": ("words that are written", "words written before"),
}
"""Which words look (the queries), and which are looked at (the keys)."""
_STRANGE = re.compile(r"<unk>|<0x([0-9A-F]{2})>")
"""A subword that is no text: the unknown symbol, or a byte."""


@dataclass(frozen=True)
class Segments:
    """What stands at a side of a heat map: words, or the subwords themselves."""

    texts: list[str]
    """The words as they can be shown anywhere, without control characters."""
    of_subword: list[int]
    """The number of the text that each subword belongs to."""

    def __add__(self, later: Segments) -> Segments:
        """These, and after them the others."""
        shifted = [len(self.texts) + number for number in later.of_subword]
        return Segments([*self.texts, *later.texts], [*self.of_subword, *shifted])


def as_subwords(pieces: Sequence[str]) -> Segments:
    """Every subword for itself."""
    return Segments([printable(piece) for piece in pieces], list(range(len(pieces))))


def as_words(pieces: Sequence[str]) -> Segments:
    """The words that subwords make up."""
    words: list[list[str]] = []
    for piece in pieces:
        if not words or piece.startswith(SPACE) or _is_unspaced_seam(words[-1], piece):
            words.append([])
        words[-1].append(piece)
    of_subword = [number for number, word in enumerate(words) for _ in word]
    return Segments([printable(_text(word)) for word in words], of_subword)


def is_unknown(pieces: Sequence[str]) -> bool:
    """Whether all but punctuation is unknown symbols, or spelt in bytes."""
    known = [piece for piece in pieces if not _STRANGE.fullmatch(piece)]
    return len(known) < len(pieces) and not any(map(str.isalnum, "".join(known)))


def _is_unspaced_seam(word: Sequence[str], piece: str) -> bool:
    """Whether either side is of a script that is written without spaces."""
    return word != [SPACE] and bool(UNSPACED.match(word[-1][-1]) or UNSPACED.match(piece))


def _text(pieces: Sequence[str]) -> str:
    """The characters of subwords, those spelt in bytes too; a lone space is shown by its mark."""
    found = ((piece, _STRANGE.fullmatch(piece)) for piece in pieces)
    raw = (bytes.fromhex(byte[1]) if byte and byte[1] else piece.encode() for piece, byte in found)
    return b"".join(raw).decode(errors="replace").removeprefix(SPACE) or SPACE


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
    titles: Sequence[str] = ()
    """What each map is of, row by row, where they were chosen by an aspect."""


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
        weights = maps[kind].weights
        layers = _chosen("layer", self.layers, weights.shape[0])
        heads = _chosen("head", self.heads, weights.shape[1])
        weights = weights[[layer - 1 for layer in layers]][:, [head - 1 for head in heads]]
        titles = [f"layer {layer}, head {head}" for layer, head in product(layers, heads)]
        if self.average and len(titles) > 1:
            weights = weights.mean(dim=(0, 1), keepdim=True)
            titles = [f"mean of {_named('layer', layers)} and {_named('head', heads)}"]
        return replace(maps[kind], weights=weights, titles=titles)


def _chosen(name: str, numbers: Sequence[int], count: int) -> Sequence[int]:
    """The numbers, if they are among the first `count`; all of these where none is named."""
    there = range(1, count + 1)
    for number in numbers:
        if number not in there:
            raise UserError(f"--{name} {number}: this attention has {_named(name, there)}")
    return numbers or there


def _named(name: str, numbers: Sequence[int]) -> str:
    """Such as "layer 2", "layers 1-3" or "layers 1, 3"."""
    if len(numbers) == 1:
        return f"{name} {numbers[0]}"
    is_run = list(numbers) == list(range(numbers[0], numbers[-1] + 1))
    return f"{name}s {f'{numbers[0]}-{numbers[-1]}' if is_run else ', '.join(map(str, numbers))}"


@torch.inference_mode()
def all_weights(
    model: EncoderDecoder, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> dict[Kind, Float[Tensor, "L H Q K"]]:
    """By kind, of those that the model has; float32, on the CPU.

    Both `source` and `target` end in EOS: there is a query for each symbol that is written.
    """
    memory, decoded = teacher_force(model, source, target, encoder=True)
    found: dict[Kind, Tensor | None] = {
        "cross": decoded.attention,
        "encoder": torch.stack(memory.attention, dim=1) if memory.attention else None,
        "decoder": decoded.self_attention,
    }
    return {kind: of[0].float().cpu() for kind, of in found.items() if of is not None}
