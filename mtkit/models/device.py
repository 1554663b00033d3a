"""The device for a model, and the precision of matrix products on it."""

from __future__ import annotations

import ctypes
import os
from typing import Literal

import torch
from torch import Tensor

from mtkit.errors import UserError

Precision = Literal["float32", "bfloat16"]
"""Types of matrix products in training."""
TORCH_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""Types of matrix products and weights; float16 is only for translation."""


def pick_device(name: str) -> torch.device:
    """Return the device `name`; "auto" is the first GPU if there is one, else the CPU.

    Raises:
        UserError: this machine has no such device.
    """
    is_available = {  # the first choice first
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(device for device in is_available if is_available[device])
    if not is_available.get(name):
        raise UserError(f"device: this machine has no {name}; use auto or cpu")
    # By default oneDNN caches 1,024 kernels, one per matrix shape; few batches share a shape. On
    # Multi30k a cache of 64 kernels takes 3 % more time and a third less memory.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    return torch.device(name)


def pick_precision(name: Precision | Literal["auto"], device: torch.device) -> Precision:
    """Return precision `name`; "auto" is bfloat16 if the device multiplies it faster than float32.

    On a CPU bfloat16 is faster with AMX, and on AMD with AVX512-BF16 (half the time). On Intel
    AVX512-BF16 alone, with AMX hidden by a virtual machine, takes 1.2 to 1.9 times as long as
    float32 (measured on Emerald Rapids), so it does not count.
    """
    if name != "auto":
        return name
    is_faster = False
    if device.type == "cuda":
        is_faster = torch.cuda.is_bf16_supported(including_emulation=False)
    elif device.type == "cpu":
        features = torch.cpu.get_capabilities()
        has_amx = bool(features.get("amx_bf16"))
        has_avx512 = bool(features.get("avx512_bf16"))
        is_intel = str(features.get("cpu_name", "")).startswith("Intel")
        is_faster = has_amx or (has_avx512 and not is_intel)
    return "bfloat16" if is_faster else "float32"


def to_autocast_dtype(x: Tensor) -> Tensor:
    """Convert `x` to the type that autocast uses, once for all matrix products that read `x`."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


def keep_freed_memory() -> None:
    """Make malloc reuse freed blocks of up to 32 MiB instead of returning them to the system.

    The system clears every page that it hands out, which takes a tenth of the time of a beam
    search. The setting holds for the whole process; C libraries other than glibc ignore it.
    """
    # CDLL(None) is this program with all libraries it has loaded, so also the C library.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD in bytes, its maximum
        mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD in bytes, its maximum
