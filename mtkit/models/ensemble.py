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
from mtkit.terms import Logits, SourceIds, SourceMask, TargetIds


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
        encoded = (it.encode(source, source_mask, attention=attention) for it in self.members)
        return EnsembleMemory(members=tuple(encoded))

    def start(self, memory: EnsembleMemory, beam: int = 1) -> EnsembleState:
        pairs = zip(self.members, memory.members, strict=True)
        return EnsembleState(tuple(it.start(own, beam) for it, own in pairs))

    def decode(
        self,
        memory: EnsembleMemory,
        state: EnsembleState,
        target: TargetIds,
        *,
        attention: bool = False,
    ) -> Decoded:
        """Read the next symbols; if all members have attention, return one head per member."""
        each = zip(self.members, memory.members, state.members, strict=True)
        decoded = [it.decode(own, before, target, attention=attention) for it, own, before in each]
        hidden = torch.cat([it.hidden for it in decoded], dim=-1)  # (N, T, D1 + D2 + …)
        states = EnsembleState(tuple(it.state for it in decoded))
        # Alignments use the last layer, as the mean of its heads.
        last = [it.attention[:, -1].mean(dim=1) for it in decoded if it.attention is not None]
        shown = torch.stack(last, dim=1).unsqueeze(1) if len(last) == len(decoded) else None
        return Decoded(hidden, states, shown)

    @torch.no_grad()
    def project(self, hidden: Float[Tensor, "... D"]) -> Logits:
        """Return the log of the members' mean probabilities, in float32, without gradient."""
        parts = hidden.split([it.settings.d_model for it in self.members], dim=-1)
        of_members = map(_log_probs, self.members, parts)  # one at a time, to save memory
        total = next(of_members)
        for log_probs in of_members:
            torch.logaddexp(total, log_probs, out=total)
        return total.sub_(math.log(len(self.members)))


def _log_probs(member: EncoderDecoder, hidden: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
    logits = member.project(hidden).float()
    # In place, because allocating N·V new numbers takes longer than computing them.
    return torch.log_softmax(logits, dim=-1, out=logits)
