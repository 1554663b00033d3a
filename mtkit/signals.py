"""Stop signals: Ctrl-C (SIGINT), SIGTERM, and SIGHUP from a terminal that was closed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DEBOUNCE_SECONDS = 1.0
"""Later signals within this time are ignored: a terminal and a parent may both send one."""


class StopSignals(ExitStack):
    """A context that calls `first` on the first stop signal and `again` on each later one.

    By default the first signal is only recorded; a later one has its usual effect. Signals that
    this process ignores (because of `nohup` or `&`) stay ignored. Outside the main thread the
    context does nothing.
    """

    received = 0
    """Number of the first signal; 0: no signal so far."""

    def __init__(
        self,
        first: Callable[[int], object] = lambda number: None,
        again: Callable[[int], object] | None = None,
    ) -> None:
        super().__init__()
        self._first = first
        self._again = again or self._raise_again
        self._received_at = 0.0

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is not threading.main_thread():
            return super().__enter__()  # Python lets only the main thread handle signals
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is signal.SIG_IGN:
                continue
            usual_handler = signal.signal(number, self._handle)
            self.callback(signal.signal, number, usual_handler)  # restores it at the end
        return super().__enter__()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.received:
            self.received = number
            self._received_at = now
            self._first(number)
        elif now - self._received_at > DEBOUNCE_SECONDS:
            self._again(number)

    def _raise_again(self, number: int) -> None:
        """Restore the usual handlers, and send the signal to them."""
        self.close()
        signal.raise_signal(number)


def exit_on_stop_signals() -> StopSignals:
    """Exit with cleanup on the first stop signal, and without cleanup on a later one.

    The exit code is 128 + the number of the signal.
    """
    signals = StopSignals(
        first=lambda number: sys.exit(128 + number),
        again=lambda number: os._exit(128 + number),
    )
    return signals.__enter__()  # until the process ends
