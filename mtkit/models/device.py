"""Which processor the tensors live on, and the number format that it multiplies them in."""

from __future__ import annotations

import ctypes
import os
from typing import Literal

import torch

from mtkit.errors import UserError

Precision = Literal["float32", "bfloat16", "float16"]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""The number formats that matrix products run in."""

KERNELS_KEPT = "64"
"""oneDNN keeps a kernel per shape of matrix, 1024 of them. No two batches have the same shape, so
most are never used again: on Multi30k this many cost 3 % of the time and save a third of the
memory.
"""

MOST_KEPT = {
    -3: 1 << 25,  # M_MMAP_THRESHOLD
    -1: (1 << 31) - 1,  # M_TRIM_THRESHOLD
}
"""Settings of glibc's malloc.h, and the bytes that each takes at most."""


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


def pick_precision(wanted: Precision | Literal["auto"], device: torch.device) -> Precision:
    """`auto` is bfloat16 where the device multiplies it faster than float32, else float32.

    Of CPUs those with AMX do, and those with AVX512-BF16 that are not Intel's: Intel's takes 1.2 to
    1.9 times as long as float32 where a virtual machine hides AMX (Emerald Rapids, `mtkit bench
    ceiling`), AMD's half as long.
    """
    if wanted != "auto":
        return wanted
    faster: object = False
    if device.type == "cuda":
        faster = torch.cuda.is_bf16_supported(including_emulation=False)
    elif device.type == "cpu":
        features = torch.cpu.get_capabilities()
        by_intel = str(features.get("cpu_name", "")).startswith("Intel")
        faster = features.get("amx_bf16") or (features.get("avx512_bf16") and not by_intel)
    return "bfloat16" if faster else "float32"


def keep_freed_memory() -> None:
    """Blocks of up to 32 MiB are used again, rather than given back to the system when freed.

    The system clears every page that it hands out, which is a tenth of the time of a beam search.
    It is for the whole process; other C libraries than glibc are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for setting, most in MOST_KEPT.items():
            mallopt(setting, most)
