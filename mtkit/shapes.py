"""The letters of every shape, and type aliases for signatures.

    B sentences · K beam · N = B·K hypotheses · S source length · T target length
    D model size · H heads · V vocabulary · L layers

Masks are True for real tokens. `logits` come before softmax, `log_probs` after it, and `scores`
are sums of log_probs. A source sequence ends in EOS. For a target sequence the model reads
BOS y1 … yn and predicts y1 … yn EOS.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

SourceIds = Int[Tensor, "B S"]
SourceMask = Bool[Tensor, "B S"]
TargetIds = Int[Tensor, "N T"]
SourceHidden = Float[Tensor, "B S D"]
Hidden = Float[Tensor, "... D"]
"""Hidden states of target sentences (N, T, D), or of tokens end to end (M, D)."""
Logits = Float[Tensor, "... V"]
