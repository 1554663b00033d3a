"""Layouts: how the sentences of a batch lie in a tensor, as padded rows or end to end.

Linear layers, norms, dropout and the loss work on both layouts. In training the tokens lie end to
end, with hardly any padding. LSTMs and PyTorch's attention need rows: R rows of W places for
tokens. M counts the tokens that lie end to end, D is the model size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

MASKED_BIAS = -1e9
"""Added to the scores of hidden keys; finite, so that a row of hidden keys does not become NaN."""

Bias = Float[Tensor, "..."]
"""What is added to attention scores: 0 for a visible key, at most MASKED_BIAS for a hidden key."""


def mask_to_bias(mask: Bool[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return the bias for attention scores: 0 where the mask is True, MASKED_BIAS elsewhere."""
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, MASKED_BIAS)


def build_causal_bias(length: int, past: int, device: torch.device) -> Float[Tensor, "T P"] | None:
    """Return the bias that hides later words, for `length` positions after `past` earlier ones.

    P = past + T. The bias is None for a single position, which may attend to all P positions.
    """
    if length == 1:
        return None
    all_keys = torch.ones(length, past + length, dtype=torch.bool, device=device)
    visible = all_keys.tril(past)  # row t keeps its columns up to past + t
    return mask_to_bias(visible)


@dataclass(frozen=True)
class Layout:
    """Rows: one sentence per row, padded at its end. `Packed` lays sentences end to end."""

    mask: Bool[Tensor, "R W"]
    """Whether a place holds a token."""

    @staticmethod
    def full(x: Float[Tensor, "R W D"]) -> Layout:
        """Return the layout of rows without padding."""
        true = torch.ones((), dtype=torch.bool, device=x.device)
        return Layout(true.expand(x.shape[:2]))  # a view, which needs no memory

    def pad(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "R W D"]:
        """Convert `x` from this layout to the one that attention reads: padded rows."""
        return x

    def unpad(self, x: Float[Tensor, "R W D"]) -> Float[Tensor, "... D"]:
        """Convert what attention returns to this layout."""
        return x

    def positions(self, table: nn.Module) -> Float[Tensor, "... D"]:
        """Return the encoding of each token's position; table(start, length) returns encodings."""
        return cast(Tensor, table(0, self.mask.shape[1]))

    def bias_for(self, keys: Layout) -> Bias | None:
        """Return the bias that hides padding of `keys`, and other sentences that share a row.

        The bias is (R, 1, 1, W), for all heads and queries; (R, 1, W, W) if rows are shared; None
        if attention itself hides what a query must not see (on a GPU).
        """
        return mask_to_bias(keys.mask)[:, None, None, :]

    def causal_bias(self) -> Bias | None:
        """Return the bias of self-attention that hides later words.

        It is (W, W); (R, 1, W, W) if rows are shared, where it also hides other sentences. It is
        None if rows have one place, or if attention itself hides later words (on a GPU).
        """
        return build_causal_bias(self.mask.shape[1], 0, self.mask.device)


@dataclass(frozen=True)
class Packed(Layout):
    """M tokens end to end, with padding after the last sentence.

    `pack_batch` (mtkit/training/batch.py) builds it, so that the last token is padding, and so is
    the last place. A place without a token refers to the last token, and padding among the tokens
    refers to the last place. Gradients of padding are zero, so the gradient of `unpad` is `pad`,
    and the gradient of `pad` is `unpad`.
    """

    place: Int[Tensor, " M"]
    """The place of each token; places are numbered row by row."""
    token: Int[Tensor, "R W"]
    """The index of the token at each place."""
    position: Int[Tensor, " M"]
    """The position of each token in its sentence; 0 for padding."""
    sentence: Int[Tensor, "R W"] | None = None
    """The number of the sentence at each place, from 1; 0 for padding. None if no row is shared."""

    def pad(self, x: Tensor) -> Tensor:
        padded = _Rearrange.apply(x, self.token.flatten(), self.place)  # type: ignore[no-untyped-call]
        return cast(Tensor, padded).view(*self.token.shape, -1)

    def unpad(self, x: Tensor) -> Tensor:
        places = x.flatten(0, 1)  # (R·W, D)
        return cast(Tensor, _Rearrange.apply(places, self.place, self.token.flatten()))  # type: ignore[no-untyped-call]

    def positions(self, table: nn.Module) -> Tensor:
        encodings = table(0, self.token.shape[1])  # (W, D)
        return cast(Tensor, encodings.index_select(0, self.position))

    def bias_for(self, keys: Layout) -> Bias | None:
        if self.sentence is None or not isinstance(keys, Packed) or keys.sentence is None:
            return super().bias_for(keys)
        is_same_sentence = self.sentence.unsqueeze(2) == keys.sentence.unsqueeze(1)  # (R, W, W)
        return mask_to_bias(is_same_sentence).unsqueeze(1)  # for all heads

    def causal_bias(self) -> Bias | None:
        causal = super().causal_bias()
        if self.sentence is None or causal is None:
            return causal
        return causal + cast(Tensor, self.bias_for(self))


class _Rearrange(torch.autograd.Function):
    """Select rows of x by `index`; the gradient selects rows of the gradient by `inverse`.

    The gradient of torch's `index_select` would add rows up, which is slower.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Float[Tensor, "K D"], index: Int[Tensor, " J"], inverse: Int[Tensor, " K"]
    ) -> Float[Tensor, "J D"]:
        ctx.save_for_backward(inverse)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (inverse,) = ctx.saved_tensors
        return grads[0].index_select(0, inverse), None, None
