"""The contracts of the two halves: any encoder goes with any decoder.

A half reads embedded words, (B, S, D) or (N, T, D), and says by itself what it makes of their
order. What stands around both, from embeddings to the output projection, is `EncoderDecoder`'s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from mtkit.models.base import Decoded, Memory, State
from mtkit.terms import Hidden, SourceMask

OwnMemory = TypeVar("OwnMemory", bound=Memory)
OwnState = TypeVar("OwnState", bound=State)


@dataclass(frozen=True)
class Encoded:
    """What an encoder hands over; every tensor leads with B."""

    states: Float[Tensor, "B S D"]
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


class Encoder(nn.Module, ABC):
    """From embedded source words to a state for each of them."""

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "B S D"], mask: SourceMask, *, attention: bool = False
    ) -> Encoded:
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
        """Reads T ≥ 1 further words; as `TranslationModel.decode`."""
