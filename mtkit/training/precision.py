"""Which number format the matrix products run in: decided once per run, by processor features."""

from __future__ import annotations

from typing import Literal

import torch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def pick_precision(
    wanted: Literal["auto", "float32", "bfloat16", "float16"], device: torch.device
) -> str:
    """`auto` is bfloat16 where the device multiplies it natively, else float32."""
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if device.type == "cpu":
        features = torch.cpu.get_capabilities()
        native = features.get("avx512_bf16") or features.get("amx_bf16")
        return "bfloat16" if native else "float32"
    return "float32"


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """Around whatever is to run in `precision`."""
    return torch.autocast(device.type, DTYPES[precision], precision != "float32")
