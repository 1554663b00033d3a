"""The interfaces of encoders, decoders and whole models, and the data that they exchange.

Any encoder works with any decoder. Both read embedded words, (B, S, D) or (N, T, D), and add
positional information themselves. State is passed in and returned, never stored on modules, so that
several searches can share a model. Dimension 0 of every Memory tensor is B. Dimension 0 of every
State tensor is N = B·K; the K hypotheses of a sentence are next to each other. Memory is never
copied per hypothesis.

Shapes: B sentences, K hypotheses of each, N = B·K, S source positions, T target positions, D the
model size, H heads, L layers, V symbols of the vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Generic, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.models.layout import Layout
from mtkit.shapes import Hidden, Logits, SourceIds, SourceMask, TargetIds


@dataclass(frozen=True)
class EncoderOutput:
    """The output of an encoder; dimension 0 of every tensor is B."""

    states: Hidden
    """One state per word, in the layout of the input."""
    layout: Layout
    finals: tuple[Float[Tensor, "B D"], ...] = ()
    """The final state of each layer; empty if the encoder reads all words in parallel."""
    attention: tuple[Float[Tensor, "B H S S"], ...] = ()
    """Self-attention weights of each layer, if requested, and if the encoder has self-attention."""

    def summary(self, layer: int) -> Float[Tensor, "B D"]:
        """Return one vector per sentence, from which layer `layer` of a decoder starts.

        The vector is the final state of encoder layer `layer`, or of the last layer if there are
        fewer. Without final states it is the mean of all states (Sennrich et al. 2017, "Nematus").
        """
        if self.finals:
            return self.finals[min(layer, len(self.finals) - 1)]
        states = self.layout.pad(self.states)  # (B, S, D)
        is_word = self.layout.mask.unsqueeze(-1)  # (B, S, 1)
        sums = (states * is_word).sum(dim=1)  # (B, D)
        counts = is_word.sum(dim=1).clamp(min=1)  # (B, 1); a row of a batch may be empty
        return sums / counts


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The encoder memory that a decoder attends to; dimension 0 of every tensor is B."""

    attention: tuple[Float[Tensor, "B H S S"], ...] = ()
    """As in `EncoderOutput`."""


@dataclass(frozen=True)
class State:
    """The state of hypotheses between two steps; dimension 0 of every tensor is N."""


@dataclass(frozen=True)
class Decoded:
    """The output of the last decoder layer, and the state after the last target symbol."""

    hidden: Hidden
    state: State
    attention: Float[Tensor, "N L H T S"] | None
    """Encoder-decoder attention weights, if requested, and if the model has such attention."""
    self_attention: Float[Tensor, "N L H T P"] | None = None
    """Self-attention weights over all P target symbols so far, if requested and available."""


Tree = TypeVar("Tree")
OwnMemory = TypeVar("OwnMemory", bound=Memory)
OwnState = TypeVar("OwnState", bound=State)


def select(tree: Tree, index: Int[Tensor, " M"]) -> Tree:
    """Return rows `index` of every tensor in a Memory or State; nothing else reorders tensors."""
    return map_tensors(lambda tensor: tensor.index_select(0, index), tree)


def map_tensors(change: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """Return a copy of nested tuples and dataclasses, with `change` applied to every tensor."""
    if isinstance(tree, Tensor):
        return cast(Tree, change(tree))
    if isinstance(tree, tuple):
        return cast(Tree, tuple(map_tensors(change, item) for item in tree))
    if is_dataclass(tree) and not isinstance(tree, type):  # an instance, not a class
        values: dict[str, object] = {}
        for field in fields(tree):
            values[field.name] = map_tensors(change, getattr(tree, field.name))
        return cast(Tree, type(tree)(**values))
    if tree is None or isinstance(tree, int):  # such as `Batch.target_tokens`
        return tree
    raise TypeError(f"a tree holds tensors, tuples and dataclasses, not {type(tree)}")


class Encoder(nn.Module, ABC):
    """An encoder: it maps embedded source words to one state per word.

    `needs_norm`: the output is a residual sum that is not normalised yet, as with pre-norm.
    """

    needs_norm = False

    @abstractmethod
    def forward(self, x: Hidden, layout: Layout, *, attention: bool = False) -> EncoderOutput:
        """Encode the sentences; with `attention`, return self-attention weights, too."""


class Decoder(nn.Module, ABC, Generic[OwnMemory, OwnState]):
    """A decoder: it maps embedded target words to hidden states that predict the next words."""

    needs_norm = False

    @abstractmethod
    def prepare_memory(self, encoded: EncoderOutput) -> OwnMemory:
        """Compute everything that is the same at every step, once per sentence."""

    @abstractmethod
    def start(self, memory: OwnMemory, beam: int) -> OwnState:
        """Return the state of `beam` empty hypotheses per sentence."""

    @abstractmethod
    def decode(
        self, memory: OwnMemory, state: OwnState, x: Hidden, *, attention: bool = False
    ) -> Decoded:
        """Read the next T ≥ 1 words; with `attention`, return attention weights, too."""

    def read(self, encoded: EncoderOutput, x: Hidden, target_layout: Layout) -> Hidden:
        """Read whole targets (teacher forcing); return the hidden states in the layout of `x`.

        `target_layout`: the layout of `x`.
        """
        memory = self.prepare_memory(encoded)
        state = self.start(memory, beam=1)
        decoded = self.decode(memory, state, target_layout.pad(x))
        return target_layout.unpad(decoded.hidden)


class TranslationModel(nn.Module, ABC, Generic[OwnMemory, OwnState]):
    """The interface of every architecture; `decode` reads whole targets or single steps."""

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @abstractmethod
    def encode(
        self, source: SourceIds, source_mask: SourceMask, *, attention: bool = False
    ) -> OwnMemory:
        """Encode each sentence once; with `attention`, return self-attention weights, too."""

    @abstractmethod
    def start(self, memory: OwnMemory, beam: int = 1) -> OwnState:
        """Return the state of `beam` empty hypotheses per sentence."""

    @abstractmethod
    def decode(
        self, memory: OwnMemory, state: OwnState, target: TargetIds, *, attention: bool = False
    ) -> Decoded:
        """Read the next T ≥ 1 target symbols; the first symbol of all must be BOS."""

    @abstractmethod
    def project(self, hidden: Float[Tensor, "... D"]) -> Logits:
        """Return logits over the target vocabulary; training fuses this step with the loss."""

    def forward(self, source: SourceIds, source_mask: SourceMask, target: TargetIds) -> Hidden:
        """Return the hidden states of the whole target (teacher forcing)."""
        memory = self.encode(source, source_mask)
        return self.decode(memory, self.start(memory), target).hidden
