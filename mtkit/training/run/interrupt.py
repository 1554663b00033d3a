"""Ctrl-C and SIGTERM end a run between two updates, not inside one."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from mtkit.errors import Interrupted


class StopSignal:
    """While open, the first SIGINT or SIGTERM is remembered; a second one acts as ever."""

    def __init__(self) -> None:
        self.received = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()


def interrupted_by(number: int) -> Interrupted:
    """What to raise after signal `number`, when the state is saved."""
    return Interrupted(
        128 + number, "training interrupted, checkpoint saved: run the same command again to go on"
    )
