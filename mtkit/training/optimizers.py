"""The optimizers: torch's own, and Muon for the matrices between layers with Adam for all else.

Muon (Jordan et al. 2024) makes the update of a matrix orthogonal, so that no direction of it is
learnt more slowly than another. Its step is scaled to be as large as Adam's (Liu et al. 2025,
"Muon is Scalable for LLM Training", equation 4): both parts share one learning rate. As
torch.optim.Muon, but with the matrices of one shape taken together: small as those of a model for
a small corpus are, one after the other they would not keep two threads busy.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.config.settings import Adam, Muon, Optimizer, Sgd
from mtkit.models.encoder_decoder import EncoderDecoder

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the polynomial that `orthogonalised` iterates: as steep at 0 as it can be."""
ITERATIONS = 5


def build_optimizer(model: EncoderDecoder, settings: Optimizer) -> torch.optim.Optimizer:
    """The learning rate is set before every update, from the schedule.

    Muon is for the matrices of layers; not for tables of words or positions, nor for the output.
    """
    match settings:
        case Muon():
            layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.RNNBase)]
            weights = [p for m in layers for p in m.parameters(recurse=False) if p.dim() == 2]
            matrices = [weight for weight in weights if weight is not model.output_weight]
            chosen = set(map(id, matrices))
            others = [p for p in model.parameters() if id(p) not in chosen]
            return MuonAndAdam(matrices, others, settings)
        case Sgd(momentum=momentum, weight_decay=decay):
            return torch.optim.SGD(model.parameters(), 0.0, momentum, weight_decay=decay)
        case Adam(kind="adam"):
            return torch.optim.Adam(model.parameters(), **_adam(settings), fused=True)
        case Adam(kind="adamw"):
            return torch.optim.AdamW(model.parameters(), **_adam(settings), fused=True)
        case Adam():
            return torch.optim.RAdam(model.parameters(), **_adam(settings))


def _adam(settings: Adam | Muon) -> dict[str, Any]:
    shared = settings.model_dump(include={"eps", "weight_decay"})
    return shared | {"lr": 0.0, "betas": (settings.beta1, settings.beta2)}


class MuonAndAdam(torch.optim.Optimizer):
    """Muon for `matrices`, torch.optim.AdamW for `others`; the state of both is in this one."""

    def __init__(
        self, matrices: list[nn.Parameter], others: list[nn.Parameter], settings: Muon
    ) -> None:
        self._adam = torch.optim.AdamW(others, **_adam(settings), fused=True)
        muon = {"params": matrices, "lr": 0.0}
        muon |= settings.model_dump(include={"momentum", "weight_decay"})
        super().__init__([muon, *self._adam.param_groups], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of both parts."""
        self._adam.state, self._adam.param_groups = self.state, self.param_groups[1:]
        self._adam.step()
        group = self.param_groups[0]
        shapes = defaultdict(list)
        for matrix in group["params"]:
            if matrix.grad is not None:
                shapes[matrix.shape].append(matrix)
        for (rows, columns), matrices in shapes.items():
            update = orthogonalised(self._momentum(matrices, group["momentum"]))
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            step = group["lr"] * 0.2 * max(rows, columns) ** 0.5
            torch._foreach_add_(matrices, update.to(matrices[0].dtype).unbind(), alpha=-step)

    def _momentum(self, matrices: list[nn.Parameter], decay: float) -> Float[Tensor, "M R C"]:
        """Nesterov's momentum: the average of gradients, after one more step towards the last."""
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        for matrix in matrices:
            if "momentum_buffer" not in self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        averages = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(averages, gradients, 1 - decay)
        return torch.stack(torch._foreach_lerp(gradients, averages, decay))


def orthogonalised(matrices: Float[Tensor, "M R C"]) -> Float[Tensor, "M R C"]:
    """Each matrix with its singular values brought near 1, all but the smallest.

    Newton-Schulz iteration of a polynomial of fifth degree, Jordan et al. 2024; in the precision
    of an autocast around it, if any: bfloat16 is enough, but slow where it is emulated.
    """
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonalised(matrices.mT).mT
    a, b, c = COEFFICIENTS
    x = torch.nn.functional.normalize(matrices.flatten(1)).view(matrices.shape)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
