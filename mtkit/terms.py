"""The letters of every shape, type aliases for signatures, and `Batch`.

    B sentences · K beam · N = B·K hypotheses · S source length · T target length
    D model size · H heads · V vocabulary · L layers

Masks are True for real tokens. `logits` come before softmax, `log_probs` after it, and `scores`
are sums of log_probs. A source sequence ends in EOS. For a target sequence the model reads
BOS y1 … yn and predicts y1 … yn EOS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

SourceIds = Int[Tensor, "B S"]
SourceMask = Bool[Tensor, "B S"]
TargetIds = Int[Tensor, "N T"]
SourceHidden = Float[Tensor, "B S D"]
Hidden = Float[Tensor, "N T D"]
Logits = Float[Tensor, "... V"]


@dataclass(frozen=True)
class Batch:
    """Sentence pairs padded to a rectangle each."""

    source: SourceIds
    target_input: Int[Tensor, "B T"]
    target_output: Int[Tensor, "B T"]
    target_tokens: int
    """Real tokens of `target_output`, EOS included."""

    def pinned(self) -> Batch:
        """Return the batch in pinned memory, from which a GPU copies by itself, if there is one."""
        return self._moved(Tensor.pin_memory) if torch.cuda.is_available() else self

    def to(self, device: torch.device) -> Batch:
        """Return the batch on `device`; from pinned memory the copy is asynchronous."""
        return self._moved(lambda ids: ids.to(device, non_blocking=True))

    def _moved(self, move: Callable[[Tensor], Tensor]) -> Batch:
        ids = (self.source, self.target_input, self.target_output)
        source, target_input, target_output = map(move, ids)
        return Batch(source, target_input, target_output, self.target_tokens)
