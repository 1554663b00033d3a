"""The residual sum of a post-norm Transformer, in one kernel."""

from __future__ import annotations

from torch import Tensor

from mtkit.extras.gpu.kernels import add_and_norm
from mtkit.models.device import to_autocast_dtype
from mtkit.models.layers import PostNorm, draw_bytes


class FastPostNorm(PostNorm):
    """LayerNorm(x + Sublayer(x)); the result has the type of matrix products.

    Dropout works as on a CPU, see `Dropout`.
    """

    def after(self, x: Tensor, sublayer: Tensor) -> Tensor:
        if not self.training:
            return super().after(x, sublayer)
        threshold = self.dropout.threshold
        return add_and_norm(
            x=to_autocast_dtype(x),
            sublayer=to_autocast_dtype(sublayer),
            random=draw_bytes(x) if threshold else None,
            threshold=threshold,
            norm=self.norm,
        )
