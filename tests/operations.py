"""The operations that torch runs in a block of code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Operations(TorchDispatchMode):
    """Calls `note(name, arguments, result)` for every operation inside the `with` block."""

    def __init__(self, note: Callable[[str, Any, Any], object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.note = note

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.note(func.overloadpacket.__name__, args, result)
        return result
