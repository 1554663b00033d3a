"""The residual sum of a Transformer with dropout and the norm that follows, in one kernel.

The norms have the type of matrix products.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from mtkit.extras.gpu.kernels import add_and_norm
from mtkit.models.device import to_autocast_dtype
from mtkit.models.layers import PostNorm, PreNorm


def fuse_pre_norms(stack: nn.Module, last: nn.Module) -> None:
    """Let each pre-norm sum of an encoder or a decoder compute the norm that reads the sum.

    That is the norm of the next sublayer, or `last` after all of them.
    """
    residuals = [module for module in stack.modules() if type(module) is PreNorm]
    norms = [*(residual.norm for residual in residuals), last]
    for residual, norm in zip(residuals, norms[1:], strict=True):
        norm.__class__ = FollowingNorm
        residual.__class__ = FastPreNorm
        cast(FastPreNorm, residual).following = (cast(FollowingNorm, norm),)


class FastPostNorm(PostNorm):
    """LayerNorm(x + Sublayer(x)); the sum has the type of matrix products, too."""

    def after(self, x: Tensor, sublayer: Tensor) -> Tensor:
        if not self.training:
            return super().after(x, sublayer)
        _, normed = add_and_norm(
            x=to_autocast_dtype(x),
            sublayer=to_autocast_dtype(sublayer),
            threshold=self.dropout.threshold,
            norm=self.norm,
        )
        return normed


class FastPreNorm(PreNorm):
    """x + Sublayer(LayerNorm(x)), computed with the norm that reads the sum."""

    following: tuple[FollowingNorm]
    """The norm; in a tuple, because it belongs to another module."""

    def after(self, x: Tensor, sublayer: Tensor) -> Tensor:
        if not self.training:
            return super().after(x, sublayer)
        (norm,) = self.following
        sublayer = to_autocast_dtype(sublayer)
        total, normed = add_and_norm(x, sublayer, self.dropout.threshold, norm)
        total.normed = normed  # type: ignore[attr-defined]
        return total


class FollowingNorm(nn.LayerNorm):
    """A norm that `FastPreNorm` has computed already, in training."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        return cast(Tensor, x.normed)  # type: ignore[attr-defined]
