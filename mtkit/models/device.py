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

MOST_KEPT = {-3: 1 << 25, -1: (1 << 31) - 1}
"""M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's malloc.h, and the bytes that each takes at most.
"""


def pick_device(name: str) -> torch.device:
    """`auto` is the first GPU where there is one, else the CPU.

    Raises UserError for a device that is not there.
    """
    has = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device in has if has[device])
    if not has.get(name):
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
        for setting, most in MOST_KEPT.items():
            mallopt(setting, most)
