"""Several models that write one translation: what may follow has the mean of their probabilities.

Models that were trained apart err apart (Sutskever et al. 2014, table 1, decode with up to five).
They may be of any architectures, but read and write the same subwords.
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
class Memories(Memory):
    """What each member looks at."""

    members: tuple[Memory, ...]


@dataclass(frozen=True)
class States(State):
    """What a hypothesis carries, of each member."""

    members: tuple[State, ...]


class Ensemble(TranslationModel[Memories, States]):
    """Models side by side: its hidden states are theirs, joined along D."""

    def __init__(self, members: Sequence[EncoderDecoder]) -> None:
        """Of one tokenizer, on one device, in numbers of one type."""
        super().__init__()
        self.members = cast(Sequence[EncoderDecoder], nn.ModuleList(members))

    def encode(
        self, source: SourceIds, source_mask: SourceMask, *, attention: bool = False
    ) -> Memories:
        encoded = (it.encode(source, source_mask, attention=attention) for it in self.members)
        return Memories(members=tuple(encoded))

    def start(self, memory: Memories, beam: int = 1) -> States:
        pairs = zip(self.members, memory.members, strict=True)
        return States(tuple(it.start(own, beam) for it, own in pairs))

    def decode(
        self, memory: Memories, state: States, target: TargetIds, *, attention: bool = False
    ) -> Decoded:
        """The attention is that of one layer, with a head for each member; None if one has none."""
        each = zip(self.members, memory.members, state.members, strict=True)
        decoded = [it.decode(own, before, target, attention=attention) for it, own, before in each]
        hidden = torch.cat([it.hidden for it in decoded], dim=-1)  # (N, T, D1 + D2 + …)
        return Decoded(hidden, States(tuple(it.state for it in decoded)), _attention_of(decoded))

    @torch.no_grad()
    def project(self, hidden: Float[Tensor, "... D"]) -> Logits:
        """log of the mean of the members' probabilities, in float32, raised to their mean height.

        A softmax does not see that height, but a penalty that goes by the sign of a logit does: so
        members that are alike have the logits of any of them. Nothing can be learnt through it.
        """
        parts = hidden.split([it.settings.d_model for it in self.members], dim=-1)
        of_members = map(_log_probs, self.members, parts)  # one after the other: they are large
        total, height = next(of_members)
        for log_probs, own_height in of_members:
            torch.logaddexp(total, log_probs, out=total)
            height += own_height
        count = len(self.members)
        return total.add_(height / count - math.log(count))


def _log_probs(
    member: EncoderDecoder, hidden: Float[Tensor, "... D"]
) -> tuple[Float[Tensor, "... V"], Float[Tensor, "... 1"]]:
    """log-probabilities, and how much higher its logits are."""
    logits = member.project(hidden).float()
    first = logits[..., :1].clone()
    # In place, as in the search: a fresh block of N·V numbers costs more than what is put there.
    log_probs = torch.log_softmax(logits, dim=-1, out=logits)
    return log_probs, first - log_probs[..., :1]


def _attention_of(members: Sequence[Decoded]) -> Float[Tensor, "N 1 M T S"] | None:
    """Of each member that of its last layer, where alignments are read: the mean of its heads."""
    last = [it.attention[:, -1].mean(dim=1) for it in members if it.attention is not None]
    return torch.stack(last, dim=1).unsqueeze(1) if len(last) == len(members) else None
