"""How much memory a computation needs at most: the tensors that live at the same time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_bytes(compute: Callable[[], object]) -> int:
    """Of all storages that operators make while `compute` runs, the most that live at once.

    Counted operator by operator, so that it is equal whenever it is counted. What an operator uses
    inside, and what was there before, is left out.
    """
    live = _Live()
    with live:
        compute()
    return live.peak


class _Live(TorchDispatchMode):
    """Adds a storage when an operator returns it, and takes it off when it is freed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        for given in tree_leaves((args, kwargs)):
            if isinstance(given, torch.Tensor):
                self._known.add(given.untyped_storage())
        returned = func(*args, **(kwargs or {}))
        for made in tree_leaves(returned):
            if isinstance(made, torch.Tensor) and made.untyped_storage() not in self._known:
                self._add(made.untyped_storage())
        return returned

    def _add(self, storage: torch.UntypedStorage) -> None:
        self._known.add(storage)
        size = storage.nbytes()
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, size)

    def _drop(self, size: int) -> None:
        self.now -= size
