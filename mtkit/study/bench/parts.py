"""Which part of a model is at work, told by its modules while it trains.

A module says so when its forward pass begins and ends. A gradient is computed from tensors that the
forward pass saved for it: whoever saved them is at work again when the backward pass unpacks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

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
        is_piece = not _has_inner(module) and _is_made_of_pieces(around)
        names[name] = type(around if is_piece else module).__name__
    return names


def _is_made_of_pieces(module: nn.Module) -> bool:
    is_list = isinstance(module, nn.ModuleList | nn.ModuleDict)
    return not is_list and not any(map(_has_inner, module.children()))


def _has_inner(module: nn.Module) -> bool:
    return next(module.children(), None) is not None


@contextmanager
def telling(model: nn.Module, tell: Callable[[str], object]) -> Iterator[None]:
    """Calls `tell` with the dotted name of the module that is at work from now on, or REST."""
    at_work = [REST]

    def enter(name: str, *_: object) -> None:
        at_work.append(name)
        tell(name)

    def leave(*_: object) -> None:
        at_work.pop()
        tell(at_work[-1])

    def pack(saved: Tensor) -> tuple[str, Tensor]:
        return at_work[-1], saved

    def unpack(packed: tuple[str, Tensor]) -> Tensor:
        name, saved = packed
        tell(name)
        return saved

    modules = list(model.named_modules())
    handles = [module.register_forward_pre_hook(partial(enter, name)) for name, module in modules]
    handles += [module.register_forward_hook(leave) for _, module in modules]
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield
    finally:
        for handle in handles:
            handle.remove()
