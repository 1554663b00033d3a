"""Which processor the tensors live on."""

from __future__ import annotations

import os

import torch

from mtkit.errors import UserError

KERNELS_KEPT = "64"
"""oneDNN keeps a kernel per shape of matrix, 1024 of them. No two batches have the same shape, so
most are never used again: on Multi30k this many cost 3 % of the time and save a third of the
memory.
"""


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
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", KERNELS_KEPT)  # read at first use
    return torch.device(name)
