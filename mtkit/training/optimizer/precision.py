"""Which number format the matrix products run in: decided once per run, by processor features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def pick_precision(
    wanted: Literal["auto", "float32", "bfloat16", "float16"], device: torch.device
) -> str:
    """`auto` is bfloat16 where the device multiplies it faster than float32, else float32."""
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if device.type == "cpu":
        faster = _multiplies_bfloat16_faster(torch.cpu.get_capabilities())
        return "bfloat16" if faster else "float32"
    return "float32"


def _multiplies_bfloat16_faster(features: Mapping[str, Any]) -> bool:
    """Whether a processor of these features does: one with AMX, or with AVX512-BF16 if not Intel's.

    Intel's AVX512-BF16 takes 1.2 to 1.9 times as long as float32 where a virtual machine hides AMX
    (Emerald Rapids, `mtkit bench ceiling`); AMD's takes half as long.
    """
    by_intel = str(features.get("cpu_name", "")).startswith("Intel")
    return bool(features.get("amx_bf16") or (features.get("avx512_bf16") and not by_intel))


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """The context in which matrix products run in `precision`."""
    return torch.autocast(device.type, DTYPES[precision], precision != "float32")
