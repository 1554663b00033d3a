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
    has = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device in has if has[device])
    if not has.get(name):
        raise UserError(f"device: this machine has no {name}; use auto or cpu")
    # oneDNN would cache 1,024 kernels, one per matrix shape; few batches share a shape. On Multi30k
    # a cache of 64 kernels takes 3 % more time and a third less memory.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    return torch.device(name)


def pick_precision(name: Precision | Literal["auto"], device: torch.device) -> Precision:
    """Return precision `name`; "auto" is bfloat16 if the device multiplies it faster than float32.

    Such CPUs are those with AMX, and AMD's with AVX512-BF16, where bfloat16 takes half as long. If
    a virtual machine hides AMX, Intel's AVX512-BF16 takes 1.2 to 1.9 times as long as float32
    (measured on Emerald Rapids).
    """
    if name != "auto":
        return name
    faster: object = False
    if device.type == "cuda":
        faster = torch.cuda.is_bf16_supported(including_emulation=False)
    elif device.type == "cpu":
        features = torch.cpu.get_capabilities()
        is_intel = str(features.get("cpu_name", "")).startswith("Intel")
        faster = features.get("amx_bf16") or (features.get("avx512_bf16") and not is_intel)
    return "bfloat16" if faster else "float32"


def to_autocast_dtype(x: Tensor) -> Tensor:
    """Convert `x` to the type that autocast uses, once for all matrix products that read `x`."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


def keep_freed_memory() -> None:
    """Make malloc reuse freed blocks of up to 32 MiB instead of returning them to the system.

    The system clears every page that it hands out, which takes a tenth of the time of a beam
    search. The setting holds for the whole process; C libraries other than glibc ignore it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD in bytes, its maximum
        mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD in bytes, its maximum
