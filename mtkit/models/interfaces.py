"""The contracts of a model and of its two halves, and what passes between them and who calls it.

Any encoder goes with any decoder. A half reads embedded words, (B, S, D) or (N, T, D), and says by
itself what it makes of their order. State is data that is passed in and handed back, never kept on
modules, so that any number of searches can share a model. Dimension 0 of every Memory tensor is B,
of every State tensor N = B·K with the K hypotheses of a sentence side by side; memory is never
copied per hypothesis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from typing import Generic, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.terms import Hidden, Logits, SourceHidden, SourceIds, SourceMask, TargetIds


@dataclass(frozen=True)
class Encoded:
    """What an encoder hands over; every tensor leads with B."""

    states: SourceHidden
    mask: SourceMask
    finals: tuple[Float[Tensor, "B D"], ...] = ()
    """What each layer ended with, of an encoder that reads one word after the other."""
    attention: tuple[Float[Tensor, "B H S S"], ...] = ()
    """The encoder's self-attention weights, layer by layer, where asked for and it has any."""

    def summary(self, layer: int) -> Float[Tensor, "B D"]:
        """The sentence as one vector, for layer `layer` of a decoder to start from.

        That with which the encoder's layer of this number, or its last, ended. An encoder that
        reads all words at once has no end: there it is the mean of the states (Sennrich et al.
        2017, "Nematus", section 3).
        """
        if self.finals:
            return self.finals[min(layer, len(self.finals) - 1)]
        real = self.mask.unsqueeze(-1)  # (B, S, 1)
        return (self.states * real).sum(dim=1) / real.sum(dim=1)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a decoder looks at; every tensor leads with B."""

    attention: tuple[Float[Tensor, "B H S S"], ...] = ()
    """As `Encoded.attention`."""


@dataclass(frozen=True)
class State:
    """What a hypothesis carries from one step to the next; every tensor leads with N."""


@dataclass(frozen=True)
class Decoded:
    """What `decode` returns."""

    hidden: Hidden
    """Last decoder layer, ready for `project`."""
    state: State
    """The state after the target that was read."""
    attention: Float[Tensor, "N L H T S"] | None
    """Encoder-decoder weights, where asked for and the model has any."""
    self_attention: Float[Tensor, "N L H T P"] | None = None
    """Masked self-attention weights over the P target symbols read so far, on the same terms."""


Tree = TypeVar("Tree")
OwnMemory = TypeVar("OwnMemory", bound=Memory)
OwnState = TypeVar("OwnState", bound=State)


def select(tree: Tree, index: Int[Tensor, " M"]) -> Tree:
    """Rows `index` of every tensor in a Memory or State: the only reordering there is."""
    if isinstance(tree, Tensor):
        return cast(Tree, tree.index_select(0, index))
    if isinstance(tree, tuple):
        return cast(Tree, tuple(select(item, index) for item in tree))
    if is_dataclass(tree) and not isinstance(tree, type):
        return type(tree)(**{f.name: select(getattr(tree, f.name), index) for f in fields(tree)})
    raise TypeError(f"a Memory or State holds tensors, tuples and dataclasses, not {type(tree)}")


class Encoder(nn.Module, ABC):
    """From embedded source words to a state for each of them."""

    @abstractmethod
    def forward(self, x: SourceHidden, mask: SourceMask, *, attention: bool = False) -> Encoded:
        """`attention`: with the weights by which it read."""


class Decoder(nn.Module, ABC, Generic[OwnMemory, OwnState]):
    """From embedded target words to hidden states from which the next words are predicted."""

    @abstractmethod
    def remember(self, encoded: Encoded) -> OwnMemory:
        """What of the encoded sentences is the same at every step; made once per sentence."""

    @abstractmethod
    def start(self, memory: OwnMemory, beam: int) -> OwnState:
        """State of `beam` empty hypotheses per sentence."""

    @abstractmethod
    def decode(
        self, memory: OwnMemory, state: OwnState, x: Hidden, *, attention: bool = False
    ) -> Decoded:
        """Reads T ≥ 1 further words; `attention`: with the weights by which it did."""


class TranslationModel(nn.Module, ABC, Generic[OwnMemory, OwnState]):
    """What training, search and everything else use, whatever the architecture.

    `encode` runs once per sentence, `start` makes the state of fresh hypotheses, and `decode`
    serves teacher forcing (all of the target), prefixes and single steps alike.
    """

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.parameters()).device

    @abstractmethod
    def encode(
        self, source: SourceIds, source_mask: SourceMask, *, attention: bool = False
    ) -> OwnMemory:
        """Reads the sentences; `attention`: with the weights by which it did."""

    @abstractmethod
    def start(self, memory: OwnMemory, beam: int = 1) -> OwnState:
        """State of `beam` empty hypotheses per sentence; every tensor in it leads with N."""

    @abstractmethod
    def decode(
        self, memory: OwnMemory, state: OwnState, target: TargetIds, *, attention: bool = False
    ) -> Decoded:
        """Reads T ≥ 1 further target symbols (the first of all is BOS).

        `attention`: with the weights by which it did.
        """

    @abstractmethod
    def project(self, hidden: Float[Tensor, "... D"]) -> Logits:
        """Logits over the target vocabulary; training fuses this with the loss instead."""

    def forward(self, source: SourceIds, source_mask: SourceMask, target: TargetIds) -> Hidden:
        """Teacher forcing."""
        memory = self.encode(source, source_mask)
        return self.decode(memory, self.start(memory), target).hidden
