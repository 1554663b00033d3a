"""Which processor the tensors live on."""

from __future__ import annotations

import ctypes
import os

import torch

from mtkit.errors import UserError

KERNELS_KEPT = "64"
"""oneDNN keeps a kernel per shape of matrix, 1024 of them. No two batches have the same shape, so
most are never used again: on Multi30k this many cost 3 % of the time and save a third of the
memory.
"""

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What glibc's malloc.h calls the two settings, and below, the most that it takes for them."""
LARGEST_KEPT_BYTES, MOST_KEPT_BYTES = 1 << 25, (1 << 31) - 1


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


def keep_freed_memory() -> None:
    """Blocks of up to 32 MiB are used again, rather than given back to the system when freed.

    The system clears every page that it hands out, which is a tenth of the time of a beam search.
    It is for the whole process; other C libraries than glibc are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MMAP_THRESHOLD, LARGEST_KEPT_BYTES)
        mallopt(TRIM_THRESHOLD, MOST_KEPT_BYTES)
