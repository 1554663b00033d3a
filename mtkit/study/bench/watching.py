"""Watches a computation: which part of a model is at work, and how much memory it claims.

A module is at work from the beginning of its forward pass to the end. A gradient is computed from
tensors that the forward pass saved for it: whoever saved them is at work again when the backward
pass unpacks them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.profiler import ProfilerActivity, profile

REST = "rest"
"""What is at work outside of the model."""


def part_names(model: nn.Module) -> dict[str, str]:
    """The part that each module is of, by its dotted name: the name of a class.

    A module without inner ones belongs to the module around it where that holds nothing but such:
    the linear layers of attention are attention, an embedding is an embedding. REST is of itself.
    """
    names = {REST: REST}
    for name, module in model.named_modules():
        around = model.get_submodule(name.rpartition(".")[0])
        is_list = isinstance(around, nn.ModuleList | nn.ModuleDict)
        is_piece = not is_list and not any(list(inner.children()) for inner in around.children())
        names[name] = type(around if is_piece else module).__name__
    return names


@contextmanager
def telling(model: nn.Module, tell: Callable[[str], object]) -> Iterator[None]:
    """Calls `tell` with the dotted name of the module that is at work from now on, or REST."""
    names = {module: name for name, module in model.named_modules()}
    at_work = [REST]

    def enter(module: nn.Module, _: object) -> None:
        at_work.append(names.get(module, at_work[-1]))  # another model works for who calls it
        tell(at_work[-1])

    def leave(*_: object) -> None:
        at_work.pop()
        tell(at_work[-1])

    def pack(saved: Tensor) -> tuple[str, Tensor]:
        return at_work[-1], saved

    def unpack(packed: tuple[str, Tensor]) -> Tensor:
        name, saved = packed
        tell(name)
        return saved

    with (
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave),
        saved_tensors_hooks(pack, unpack),
    ):
        yield


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Without kernels that hide matrix products: oneDNN's and cuDNN's LSTMs, and a GPU's fused
    attention (which computes its scores twice, to save memory).
    """
    onednn: Any = torch.backends.mkldnn  # whose `flags` would warn about GPUs
    before, onednn.enabled = onednn.enabled, False
    try:
        with (
            torch.compiler.set_stance("force_eager"),
            torch.backends.cudnn.flags(enabled=False),
            sdpa_kernel(SDPBackend.MATH),
        ):
            yield
    finally:
        onednn.enabled = before


def profiling(device: torch.device, *, memory: bool = False) -> profile:
    """A profiler of what the processor does, and a GPU where that is the device."""
    # Without it torch writes to stderr of its own accord, in the first profile of a process.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    return profile(activities=activities, profile_memory=memory, acc_events=True)


def claimed_bytes(compute: Callable[[], object], device: torch.device) -> int:
    """Of the memory that `compute` claims on the device, the most that it holds at once.

    Claims are counted, not what the system gives for them: equal whenever it is counted.
    """
    with profiling(device, memory=True) as profiler:
        compute()
    results: Any = profiler.profiler
    claims = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
    claims = [event for event in claims if event.device_type().name.lower() == device.type]
    claims.sort(key=lambda event: event.start_ns())
    return max(accumulate((int(event.nbytes()) for event in claims), initial=0))
