"""Stage 2: text pairs to batches of subword ids."""

from __future__ import annotations

from mtkit.batching.build import Batches, build_batches, open_batches
from mtkit.batching.plan import Rows, plan_epoch
from mtkit.batching.store import Store

__all__ = [
    "Batches",
    "Rows",
    "Store",
    "build_batches",
    "open_batches",
    "plan_epoch",
]
