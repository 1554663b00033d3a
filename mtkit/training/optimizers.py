"""The optimizers: torch's own, and Muon for the matrices of layers with AdamW for the rest.

Muon (Jordan et al. 2024) makes the update of a matrix orthogonal, so that it changes equally fast
in all directions. Updates are scaled to the size of Adam's updates (Liu et al. 2025, "Muon is
Scalable for LLM Training", equation 4), so that both can share one learning rate. The result equals
torch.optim.Muon, but matrices of the same shape are computed together, which is faster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mtkit.config.settings import Adam, Muon, Optimizer, Sgd
from mtkit.models.encoder_decoder import EncoderDecoder

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the polynomial that `orthogonalize` iterates; they maximise its slope at 0."""
ITERATIONS = 5


def build_optimizer(model: EncoderDecoder, settings: Optimizer) -> torch.optim.Optimizer:
    """Return the optimizer of a model; the schedule sets its learning rate before every step.

    The rate is a tensor on the model's device. Muon is only for the matrices of layers, not for
    embeddings or the output.
    """
    optimizer = _build(model, settings)
    # CUDA's kernels read the rate as float32; on a CPU it is float64, as in Python.
    dtype = torch.float64 if model.device.type == "cpu" else torch.float32
    for group in optimizer.param_groups:
        group["lr"] = torch.zeros((), dtype=dtype, device=model.device)
    return optimizer


def _build(model: EncoderDecoder, settings: Optimizer) -> torch.optim.Optimizer:
    adam = _adam(settings, model.device) if isinstance(settings, Adam | Muon) else {}
    match settings:
        case Muon():
            layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.RNNBase)]
            weights = [p for m in layers for p in m.parameters(recurse=False) if p.dim() == 2]
            matrices = [weight for weight in weights if weight is not model.output_weight]
            matrix_ids = set(map(id, matrices))
            others = [p for p in model.parameters() if id(p) not in matrix_ids]
            return MuonAndAdam(matrices, others, settings, adam)
        case Sgd(momentum=momentum, weight_decay=decay):
            sgd = torch.optim.SGD(model.parameters(), 0.0, momentum, weight_decay=decay, fused=True)
            if momentum:  # a skipped first step would leave the buffers undefined
                for parameter in model.parameters():
                    sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
            return sgd
        case Adam(kind="adam"):
            return torch.optim.Adam(model.parameters(), **adam, fused=True)
        case Adam():
            return torch.optim.AdamW(model.parameters(), **adam, fused=True)


def _adam(settings: Adam | Muon, device: torch.device) -> dict[str, Any]:
    shared = settings.model_dump(include={"eps", "weight_decay"})
    betas = settings.beta1, settings.beta2
    return shared | {"lr": 0.0, "betas": betas, "capturable": device.type == "cuda"}


def step_where(healthy: Bool[Tensor, ""], optimizer: torch.optim.Optimizer) -> None:
    """Make a step if `healthy`, a value on the device, is true; else change nothing."""
    if isinstance(optimizer, MuonAndAdam):
        optimizer.healthy = healthy
    else:  # fused kernels do nothing if `found_inf` is 1
        vars(optimizer).update(grad_scale=None, found_inf=1 - healthy.float())
    optimizer.step()


class MuonAndAdam(torch.optim.Optimizer):
    """Muon for `matrices`, AdamW for `others`, with one state for both."""

    healthy: Bool[Tensor, ""]
    """Whether the gradients are finite; if not, a step changes nothing."""

    def __init__(
        self,
        matrices: list[nn.Parameter],
        others: list[nn.Parameter],
        settings: Muon,
        adam: Mapping[str, Any],
    ) -> None:
        self._adam = torch.optim.AdamW(others, **adam, fused=True)
        muon = {"params": matrices, "lr": 0.0}
        muon |= settings.model_dump(include={"momentum", "weight_decay"})
        super().__init__([muon, *self._adam.param_groups], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters."""
        self._adam.state, self._adam.param_groups = self.state, self.param_groups[1:]
        step_where(self.healthy, self._adam)
        group = self.param_groups[0]
        rate = group["lr"] * self.healthy
        shapes = defaultdict(list)
        for matrix in group["params"]:
            if matrix.grad is not None:
                shapes[matrix.shape].append(matrix)
        for (rows, columns), matrices in shapes.items():
            update = orthogonalize(self._momentum(matrices, group["momentum"]))
            torch._foreach_mul_(matrices, 1 - rate * group["weight_decay"])
            steps = update.to(matrices[0].dtype) * (rate * -0.2 * max(rows, columns) ** 0.5)
            torch._foreach_add_(matrices, steps.unbind())

    def _momentum(self, matrices: list[nn.Parameter], decay: float) -> Float[Tensor, "M R C"]:
        """Return Nesterov's momentum: the running mean, moved once more towards the gradients.

        If the gradients are not finite, the mean takes their place, so it stays unchanged.
        """
        for matrix in matrices:
            if "momentum_buffer" not in self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        averages = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        gradients = [
            torch.where(self.healthy, cast(Tensor, matrix.grad), average)
            for matrix, average in zip(matrices, averages, strict=True)
        ]
        torch._foreach_lerp_(averages, gradients, 1 - decay)
        return torch.stack(torch._foreach_lerp(gradients, averages, decay))


def orthogonalize(matrices: Float[Tensor, "M R C"]) -> Float[Tensor, "M R C"]:
    """Return each matrix with its singular values moved close to 1, except very small ones.

    This is the Newton-Schulz iteration with a fifth-degree polynomial of Jordan et al. 2024. It
    runs in the precision of an enclosing autocast; bfloat16 is enough, but slow if emulated.
    """
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonalize(matrices.mT).mT
    a, b, c = COEFFICIENTS
    x = torch.nn.functional.normalize(matrices.flatten(1)).view(matrices.shape)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
