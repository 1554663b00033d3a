"""The optimizers: torch's own, and Muon for the matrices of layers with AdamW for the rest.

Muon (Jordan et al. 2024) makes the update of a matrix orthogonal, so that it changes equally fast
in all directions. Updates are scaled to the size of Adam's updates (Liu et al. 2025, "Muon is
Scalable for LLM Training", equation 4), so that both can share one learning rate. The result equals
torch.optim.Muon, but matrices of the same shape are computed together, which is faster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from inspect import unwrap
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn, optim

from mtkit.config.settings import Adam, Muon, Optimizer, Sgd
from mtkit.models.encoder_decoder import EncoderDecoder

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the polynomial that `orthogonalize` iterates; they maximise its slope at 0."""
ITERATIONS = 5
"""Number of iterations: singular values from 0.01 to 1 end between 0.68 and 1.14."""
UPDATE_SCALE = 0.2
"""Root mean square of the updates of Adam, which those of Muon get, too (Liu et al. 2025)."""


class PlainOptimizer(optim.Optimizer):
    """A base of torch's optimizers without wrappers that import torch's compiler.

    The wrappers hide these methods from the compiler, and import all of it for that, which takes
    as long as everything else that a training process imports. mtkit does not compile models.
    """

    add_param_group = unwrap(optim.Optimizer.add_param_group)
    zero_grad = unwrap(optim.Optimizer.zero_grad)
    state_dict = unwrap(optim.Optimizer.state_dict)
    load_state_dict = unwrap(optim.Optimizer.load_state_dict)


class PlainSgd(PlainOptimizer, optim.SGD):
    """torch's SGD without a wrapper that imports its compiler."""

    step = torch.no_grad()(unwrap(optim.SGD.step))


class PlainAdam(PlainOptimizer, optim.Adam):
    """torch's Adam without a wrapper that imports its compiler."""

    step = torch.no_grad()(unwrap(optim.Adam.step))


class PlainAdamW(PlainOptimizer, optim.AdamW):
    """torch's AdamW without a wrapper that imports its compiler."""

    step = torch.no_grad()(unwrap(optim.AdamW.step))


def build_optimizer(model: EncoderDecoder, settings: Optimizer) -> optim.Optimizer:
    """Return the optimizer of a model; the schedule sets its learning rate before every step.

    The rate is a tensor on the model's device. Muon is only for the matrices of layers, not for
    embeddings or the output.
    """
    optimizer = _build_with_rate_0(model, settings)
    # CUDA's kernels read the rate as float32; on a CPU it is float64, as in Python.
    dtype = torch.float64 if model.device.type == "cpu" else torch.float32
    for group in optimizer.param_groups:
        group["lr"] = torch.zeros((), dtype=dtype, device=model.device)
    return optimizer


def _build_with_rate_0(model: EncoderDecoder, settings: Optimizer) -> optim.Optimizer:
    """Return the optimizer with the learning rate 0, in torch's default type."""
    match settings:
        case Muon():
            matrices = _layer_matrices(model)
            matrix_ids = {id(matrix) for matrix in matrices}
            others = [p for p in model.parameters() if id(p) not in matrix_ids]
            return MuonAndAdam(matrices, others, settings, _adam_arguments(settings, model.device))
        case Sgd(momentum=momentum, weight_decay=decay):
            sgd = PlainSgd(model.parameters(), 0.0, momentum, weight_decay=decay, fused=True)
            if momentum:  # a skipped first step would leave the buffers undefined
                for parameter in model.parameters():
                    sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
            return sgd
        case Adam(kind="adam"):
            arguments = _adam_arguments(settings, model.device)
            return PlainAdam(model.parameters(), **arguments)
        case Adam():
            arguments = _adam_arguments(settings, model.device)
            return PlainAdamW(model.parameters(), **arguments)


def _layer_matrices(model: EncoderDecoder) -> list[nn.Parameter]:
    """Return the weights of linear layers and LSTMs, without those of the output."""
    matrices: list[nn.Parameter] = []
    for module in model.modules():
        if not isinstance(module, nn.Linear | nn.RNNBase):
            continue
        for parameter in module.parameters(recurse=False):
            if parameter.dim() == 2 and parameter is not model.output_weight:  # no biases
                matrices.append(parameter)
    return matrices


def _adam_arguments(settings: Adam | Muon, device: torch.device) -> dict[str, Any]:
    """Return the arguments of torch's Adam and AdamW; `build_optimizer` sets another rate."""
    return {
        "lr": 0.0,
        "betas": (settings.beta1, settings.beta2),
        "eps": settings.eps,
        "weight_decay": settings.weight_decay,
        "capturable": device.type == "cuda",  # counts steps on the GPU, for CUDA graphs
        "fused": True,  # one kernel for all parameters, which `step_where` can switch off
    }


def step_where(is_healthy: Bool[Tensor, ""], optimizer: optim.Optimizer) -> None:
    """Make a step if `is_healthy`, a value on the device, is true; else change nothing."""
    if isinstance(optimizer, MuonAndAdam):
        optimizer.is_healthy = is_healthy
    else:
        # Attributes that torch's GradScaler sets, too: fused kernels do nothing if `found_inf` is
        # 1. So the CPU need not wait for the value.
        vars(optimizer).update(grad_scale=None, found_inf=1 - is_healthy.float())
    optimizer.step()


class MuonAndAdam(PlainOptimizer):
    """Muon for `matrices`, AdamW for `others`, with one state for both."""

    is_healthy: Bool[Tensor, ""]
    """Whether the gradients are finite; if not, a step changes nothing. `step_where` sets it."""

    def __init__(
        self,
        matrices: list[nn.Parameter],
        others: list[nn.Parameter],
        settings: Muon,
        adam: Mapping[str, Any],
    ) -> None:
        self._adam = PlainAdamW(others, **adam)
        muon_group = {
            "params": matrices,
            "lr": 0.0,
            "momentum": settings.momentum,
            "weight_decay": settings.weight_decay,
        }
        super().__init__([muon_group, *self._adam.param_groups], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters."""
        # Each time, because loading a checkpoint replaces state and groups.
        self._adam.state = self.state
        self._adam.param_groups = self.param_groups[1:]
        step_where(self.is_healthy, self._adam)
        group = self.param_groups[0]
        rate = group["lr"] * self.is_healthy  # 0 if the step is skipped
        matrices_by_shape = defaultdict(list)
        for matrix in group["params"]:
            if matrix.grad is not None:
                matrices_by_shape[matrix.shape].append(matrix)
        for (rows, columns), matrices in matrices_by_shape.items():
            momentum = self._update_momentum(matrices, group["momentum"])  # (M, R, C)
            update = orthogonalize(momentum).to(matrices[0].dtype)
            torch._foreach_mul_(matrices, 1 - rate * group["weight_decay"])
            # An orthogonal matrix has the root mean square 1 / √max(R, C).
            factor = rate * -UPDATE_SCALE * max(rows, columns) ** 0.5
            torch._foreach_add_(matrices, (update * factor).unbind())

    def _update_momentum(
        self, matrices: list[nn.Parameter], decay: float
    ) -> Float[Tensor, "M R C"]:
        """Update the running mean of the gradients of M matrices; return Nesterov's momentum.

        Nesterov's momentum is the mean, moved once more towards the gradients. If the gradients are
        not finite, the mean takes their place, so the mean stays unchanged.
        """
        means: list[Tensor] = []
        gradients: list[Tensor] = []
        for matrix in matrices:
            state = self.state[matrix]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(matrix)
            mean = state["momentum_buffer"]
            means.append(mean)
            gradients.append(torch.where(self.is_healthy, cast(Tensor, matrix.grad), mean))
        torch._foreach_lerp_(means, gradients, 1 - decay)
        return torch.stack(torch._foreach_lerp(gradients, means, decay))


def orthogonalize(matrices: Float[Tensor, "M R C"]) -> Float[Tensor, "M R C"]:
    """Return each matrix with its singular values moved close to 1, except very small ones.

    This is the Newton-Schulz iteration with a fifth-degree polynomial of Jordan et al. 2024:
    X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X. It runs in the precision of an enclosing autocast; bfloat16
    is enough, but slow if emulated.
    """
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonalize(matrices.mT).mT  # so that X Xᵀ is the smaller of the two products
    a, b, c = COEFFICIENTS
    # Divided by its norm, a matrix has no singular value above 1, so the iteration converges.
    x = torch.nn.functional.normalize(matrices.flatten(1)).view(matrices.shape)
    for _ in range(ITERATIONS):
        gram = x @ x.mT  # (M, R, R)
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)  # b gram + c gram²
        x = torch.baddbmm(x, polynomial, x, beta=a)  # a x + polynomial x
    return x
