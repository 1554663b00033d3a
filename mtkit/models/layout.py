"""Layouts: how the sentences of a batch lie in a tensor, as padded rows or end to end.

Linear layers, norms, dropout and the loss work on both layouts. In training the tokens lie end to
end, with hardly any padding. LSTMs and PyTorch's attention need rows: R × W places for tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

MASKED_BIAS = -1e9
"""Added to masked scores; finite, so that a fully masked row does not become NaN."""

Bias = Float[Tensor, "..."]
"""What is added to attention scores: 0 for a visible key, at most MASKED_BIAS for a hidden one."""


def mask_to_bias(mask: Bool[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return the bias for attention scores: 0 where the mask is True, MASKED_BIAS elsewhere."""
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, MASKED_BIAS)


def build_causal_bias(length: int, past: int, device: torch.device) -> Float[Tensor, "T P"] | None:
    """Return the bias that hides later words, for `length` positions after `past` earlier ones.

    It is None for a single position, because that may attend to all earlier ones.
    """
    if length == 1:
        return None
    visible = torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past)
    return mask_to_bias(visible)


@dataclass(frozen=True)
class Layout:
    """Rows: one sentence per row, padded at its end. `Packed` lays sentences end to end."""

    mask: Bool[Tensor, "R W"]
    """Whether a place holds a token."""

    @staticmethod
    def full(x: Float[Tensor, "R W D"]) -> Layout:
        """Return the layout of rows without padding."""
        return Layout(torch.ones((), dtype=torch.bool, device=x.device).expand(x.shape[:2]))

    def pad(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "R W D"]:
        """Convert `x` from this layout to the one that attention reads: padded rows."""
        return x

    def unpad(self, x: Float[Tensor, "R W D"]) -> Float[Tensor, "... D"]:
        """Convert what attention returns to this layout."""
        return x

    def positions(self, table: nn.Module) -> Float[Tensor, "... D"]:
        """Return the encoding of each token's position; table(start, length) returns encodings."""
        return cast(Tensor, table(0, self.mask.shape[1]))

    def mask_for(self, keys: Layout) -> Bias | None:
        """Return the bias that hides padding of `keys`, and other sentences that share a row.

        It is (R, 1, 1, W), for all heads and queries; (R, 1, W, W) if rows are shared. It is None
        if nothing has to be hidden.
        """
        return mask_to_bias(keys.mask)[:, None, None, :]

    def causal_mask(self) -> Bias | None:
        """Return the bias of self-attention that hides later words; None if it hides nothing."""
        return build_causal_bias(self.mask.shape[1], 0, self.mask.device)


@dataclass(frozen=True)
class Packed(Layout):
    """M tokens end to end, with padding after the last sentence.

    The last token is padding, and so is the last place. A place without a token refers to the last
    token, and padding among the tokens refers to the last place. Gradients of padding are zero, so
    the gradient of `unpad` is `pad`, and the reverse.
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
        return cast(Tensor, _Rearrange.apply(x.flatten(0, 1), self.place, self.token.flatten()))  # type: ignore[no-untyped-call]

    def positions(self, table: nn.Module) -> Tensor:
        return cast(Tensor, table(0, self.token.shape[1]).index_select(0, self.position))

    def mask_for(self, keys: Layout) -> Bias | None:
        if self.sentence is None or not isinstance(keys, Packed) or keys.sentence is None:
            return super().mask_for(keys)
        return mask_to_bias(self.sentence.unsqueeze(2) == keys.sentence.unsqueeze(1)).unsqueeze(1)

    def causal_mask(self) -> Bias | None:
        causal = super().causal_mask()
        if self.sentence is None or causal is None:
            return causal
        return causal + cast(Tensor, self.mask_for(self))


class _Rearrange(torch.autograd.Function):
    """Select rows of x by `index`; the gradient selects rows of the gradient by `inverse`."""

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
