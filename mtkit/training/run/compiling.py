"""Whether torch.compile repays the minutes that it takes."""

from __future__ import annotations

from typing import Literal

import torch

REPAYING_STEPS = 2_000
"""Number of updates that must be left: compiling for all shapes costs a minute or two, a GPU makes
some ten updates a second, and a third of their time is saved at best.
"""


def repays_compiling(wanted: bool | Literal["auto"], device: torch.device, steps_left: int) -> bool:
    """`auto`: on a GPU, in a run long enough; on a CPU nothing is gained, and a compiler needed."""
    if wanted == "auto":
        return device.type == "cuda" and steps_left >= REPAYING_STEPS
    return wanted
