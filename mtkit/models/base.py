"""The one contract between architectures and everything that uses them.

`encode` runs once per sentence, `start` makes the state of fresh hypotheses, and `decode` serves
teacher forcing (all of the target), prefixes and single steps alike. State is data that is passed
in and handed back, never kept on modules, so that any number of searches can share a model.
Dimension 0 of every Memory tensor is B, of every State tensor N = B·K with the K hypotheses of a
sentence side by side; memory is never copied per hypothesis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from typing import TypeVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.config.model import Tie
from mtkit.terms import Hidden, Logits, SourceIds, SourceMask, TargetIds
from mtkit.tokenizer.symbols import PAD

Tree = TypeVar("Tree")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What `encode` returns, for the decoder to look at; every tensor leads with B."""

    attention: tuple[Float[Tensor, "B H S S"], ...] = ()
    """The encoder's self-attention weights, layer by layer, where asked for and it has any."""


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


class TranslationModel(nn.Module, ABC):
    """Encoder, decoder, and the embeddings and output projection around them."""

    source_embedding: nn.Embedding
    target_embedding: nn.Embedding

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_model: int,
        tie: Tie,
        *,
        output_bias: bool = False,
    ) -> None:
        super().__init__()
        if tie == "all" and source_vocab != target_vocab:
            raise ValueError(f"one embedding for vocabularies of {source_vocab} and {target_vocab}")
        self.target_embedding = _embedding(target_vocab, d_model)
        self.source_embedding = (
            self.target_embedding if tie == "all" else _embedding(source_vocab, d_model)
        )
        self.output = None if tie != "none" else nn.Linear(d_model, target_vocab, bias=False)
        self.output_bias = _bias(target_vocab) if output_bias else None

    @abstractmethod
    def encode(
        self, source: SourceIds, source_mask: SourceMask, *, attention: bool = False
    ) -> Memory:
        """Reads the sentences; `attention`: with the weights by which it did."""

    @abstractmethod
    def start(self, memory: Memory, beam: int = 1) -> State:
        """State of `beam` empty hypotheses per sentence; every tensor in it leads with N."""

    @abstractmethod
    def decode(
        self, memory: Memory, state: State, target: TargetIds, *, attention: bool = False
    ) -> Decoded:
        """Reads T ≥ 1 further target symbols (the first of all is BOS).

        `attention`: with the weights by which it did.
        """

    @property
    def output_weight(self) -> Float[Tensor, "V D"]:
        return self.target_embedding.weight if self.output is None else self.output.weight

    def project(self, hidden: Float[Tensor, "... D"]) -> Logits:
        """Logits over the target vocabulary; training fuses this with the loss instead."""
        return F.linear(hidden, self.output_weight, self.output_bias)

    def output_factors(
        self, hidden: Float[Tensor, "... D"]
    ) -> tuple[Float[Tensor, "... E"], Float[Tensor, "V E"]]:
        """The matrices whose product is `project`: a bias is the weight of one more input, 1."""
        if self.output_bias is None:
            return hidden, self.output_weight
        one = hidden.new_ones(*hidden.shape[:-1], 1)
        weight = torch.cat([self.output_weight, self.output_bias.unsqueeze(1)], dim=1)
        return torch.cat([hidden, one], dim=-1), weight

    def forward(self, source: SourceIds, source_mask: SourceMask, target: TargetIds) -> Hidden:
        """Teacher forcing."""
        memory = self.encode(source, source_mask)
        return self.decode(memory, self.start(memory), target).hidden


def select(tree: Tree, index: Int[Tensor, " M"]) -> Tree:
    """Rows `index` of every tensor in a Memory or State: the only reordering there is."""
    if isinstance(tree, Tensor):
        return cast(Tree, tree.index_select(0, index))
    if isinstance(tree, tuple):
        return cast(Tree, tuple(select(item, index) for item in tree))
    if is_dataclass(tree) and not isinstance(tree, type):
        return type(tree)(**{f.name: select(getattr(tree, f.name), index) for f in fields(tree)})
    raise TypeError(f"a Memory or State holds tensors, tuples and dataclasses, not {type(tree)}")


def _bias(vocab: int) -> nn.Parameter:
    bias = nn.Parameter(torch.empty(vocab))
    nn.init.zeros_(bias)
    return bias


def _embedding(vocab: int, d_model: int) -> nn.Embedding:
    embedding = nn.Embedding(vocab, d_model, padding_idx=None)
    nn.init.normal_(embedding.weight, std=d_model**-0.5)
    with torch.no_grad():
        embedding.weight[PAD].zero_()
    return embedding
