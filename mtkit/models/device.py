"""The device that holds the tensors, and the precision of its matrix products."""

from __future__ import annotations

import ctypes
import os
from typing import Literal

import torch

from mtkit.errors import UserError

Precision = Literal["float32", "bfloat16", "float16"]
TORCH_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def pick_device(name: str) -> torch.device:
    """Return the device of that name; "auto" is the first GPU if there is one, else the CPU.

    Raises:
        UserError: this machine has no such device.
    """
    has = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device in has if has[device])
    if not has.get(name):
        raise UserError(f"device: this machine has no {name}; use auto or cpu")
    # oneDNN would cache 1,024 kernels, one per matrix shape; few batches share a shape. On Multi30k
    # 64 of them cost 3 % of the time and save a third of the memory.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    return torch.device(name)


def pick_precision(name: Precision | Literal["auto"], device: torch.device) -> Precision:
    """Return that precision; "auto" is bfloat16 if the device multiplies it faster than float32.

    Among CPUs these are those with AMX, and those with AVX512-BF16 that are not Intel's. Intel's
    take 1.2 to 1.9 times as long as in float32 if a virtual machine hides AMX (measured on Emerald
    Rapids), AMD's take half as long.
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


def keep_freed_memory() -> None:
    """Make malloc reuse freed blocks of up to 32 MiB instead of returning them to the system.

    The system clears every page that it hands out, which takes a tenth of the time of a beam
    search. The setting holds for the whole process; C libraries other than glibc ignore it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD in bytes, its maximum
        mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD in bytes, its maximum
