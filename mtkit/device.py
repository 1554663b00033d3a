"""Which processor the tensors live on."""

from __future__ import annotations

import torch

from mtkit.errors import UserError


def pick_device(name: str) -> torch.device:
    """`auto` is the first GPU where there is one, else the CPU.

    Raises UserError for a device that is not there.
    """
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(device for device, is_there in there.items() if is_there)
    if not there.get(name):
        raise UserError(f"device: no {name} on this machine: use auto or cpu")
    return torch.device(name)
