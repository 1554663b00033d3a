"""An ensemble: several models write one translation by the mean of their probabilities.

Models from separate training runs make different errors (Sutskever et al. 2014, table 1: ensembles
of up to five models). Architectures may differ, but all members must have the same tokenizer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.interfaces import Decoded, Memory, State, TranslationModel
from mtkit.shapes import Logits, SourceIds, SourceMask, TargetIds


@dataclass(frozen=True, kw_only=True)
class EnsembleMemory(Memory):
    """The memory of each member."""

    members: tuple[Memory, ...]


@dataclass(frozen=True)
class EnsembleState(State):
    """The state of each member."""

    members: tuple[State, ...]


class Ensemble(TranslationModel[EnsembleMemory, EnsembleState]):
    """Several models in parallel; their hidden states are concatenated along D."""

    def __init__(self, members: Sequence[EncoderDecoder]) -> None:
        """Join models that have equal tokenizers, the same device and the same precision."""
        super().__init__()
        self.members = cast(Sequence[EncoderDecoder], nn.ModuleList(members))

    def encode(
        self, source: SourceIds, source_mask: SourceMask, *, attention: bool = False
    ) -> EnsembleMemory:
        memories: list[Memory] = []
        for model in self.members:
            memories.append(model.encode(source, source_mask, attention=attention))
        return EnsembleMemory(members=tuple(memories))

    def start(self, memory: EnsembleMemory, beam: int = 1) -> EnsembleState:
        states: list[State] = []
        for model, model_memory in zip(self.members, memory.members, strict=True):
            states.append(model.start(model_memory, beam))
        return EnsembleState(tuple(states))

    def decode(
        self,
        memory: EnsembleMemory,
        state: EnsembleState,
        target: TargetIds,
        *,
        attention: bool = False,
    ) -> Decoded:
        """Read the next symbols.

        If all members have attention, return one layer of attention with one head per member: the
        mean over the heads of the member's last layer, which alignments use.
        """
        hiddens: list[Tensor] = []
        states: list[State] = []
        heads: list[Tensor] = []
        for model, model_memory, model_state in zip(
            self.members, memory.members, state.members, strict=True
        ):
            decoded = model.decode(model_memory, model_state, target, attention=attention)
            hiddens.append(decoded.hidden)
            states.append(decoded.state)
            if decoded.attention is not None:  # (N, L, H, T, S)
                heads.append(decoded.attention[:, -1].mean(dim=1))  # (N, T, S)
        shown = None
        if len(heads) == len(self.members):
            shown = torch.stack(heads, dim=1).unsqueeze(1)  # (N, 1, H, T, S), H members
        return Decoded(
            hidden=torch.cat(hiddens, dim=-1),  # (N, T, D1 + D2 + …)
            state=EnsembleState(tuple(states)),
            attention=shown,
        )

    @torch.no_grad()
    def project(self, hidden: Float[Tensor, "... D"]) -> Logits:
        """Return the log of the members' mean probabilities, in float32, without gradient."""
        widths = [model.settings.d_model for model in self.members]
        parts = hidden.split(widths, dim=-1)
        models = list(self.members)
        # One member at a time, to save memory.
        log_sum = _log_probs(models[0], parts[0])
        for model, part in zip(models[1:], parts[1:], strict=True):
            log_probs = _log_probs(model, part)
            torch.logaddexp(log_sum, log_probs, out=log_sum)
        return log_sum.sub_(math.log(len(models)))  # the sum divided by their number


def _log_probs(member: EncoderDecoder, hidden: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
    """Return the log probabilities of one member, in float32."""
    logits = member.project(hidden).float()
    # In place, because allocating N·V new numbers takes longer than computing them.
    return torch.log_softmax(logits, dim=-1, out=logits)
