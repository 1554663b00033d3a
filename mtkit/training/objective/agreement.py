"""The row loss of two passes that are to predict the same: R-Drop."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from mtkit.training.objective.loss import RowLoss, RowTerms, softmax_, subtract_gold_


@dataclass(frozen=True)
class Agreement(RowLoss):
    """The row loss of R-Drop: two passes, with different dropout, are to predict the same.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", equation 4, here half of
    it, so that losses compare with those of training without it: with p and q of the two passes,

        ½ (-log p(y) - log q(y)) + α/4 (KL(p ‖ q) + KL(q ‖ p)).

    The sum of both divergences is E_p[z] - E_q[z], with z the difference of the passes' logits, and
    its gradient with respect to the logits of p is p · (z - E_p[z]) + p - q.
    """

    passes = 2
    alpha: float

    def __call__(
        self, logits: Float[Tensor, "2 R V"], gold: Int[Tensor, "2 R 1"], smoothing: float
    ) -> RowTerms:
        apart = logits - logits.flip(0)
        log_sum, gold_logit = softmax_(logits, gold)
        expected = (logits * apart).sum(dim=-1, keepdim=True)
        pull = apart.sub_(expected).mul_(logits).add_(logits).sub_(logits.flip(0))
        subtract_gold_(logits, gold, smoothing)
        logits.div_(2).add_(pull, alpha=self.alpha / 4)
        return log_sum, gold_logit, self.alpha / 4 * expected
