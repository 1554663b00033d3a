"""Locks that one process holds, also on file systems that have none.

Usually the operating system holds a lock, and releases it when the process ends. Some network file
systems have no locks (Lustre mounted without `flock`, NFS without a lock daemon). There, a marker
is the lock: a second file, which exists while the lock is held and names the process. The marker of
a killed process stays. The next process on the same machine removes it, but a process on another
machine cannot tell, so the user has to delete it.
"""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mtkit.artifacts.storage import open_without_links

if TYPE_CHECKING:
    from filelock import BaseFileLock

NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Numbers of the error that file systems without locks return."""


class LockHeldError(Exception):
    """Another process holds the lock."""

    def __init__(self, marker: Path | None = None) -> None:
        super().__init__(marker)
        self.advice = ""
        """What to do if the other process is gone, for the end of a message."""
        if marker is not None:
            self.advice = f"; if that process has ended, delete {marker}"


@contextmanager
def lock_path(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock at `path`, a file that has no other purpose; its folder must exist.

    `wait`: wait for a process that holds the lock.

    Raises:
        LockHeldError: another process holds the lock.
    """
    with open(path, "ab", opener=open_without_links) as file, lock_file(file, path, wait=wait):
        yield


@contextmanager
def lock_file(file: IO[Any], path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of an open file; `path`: its name, next to which a marker may be.

    `wait`: as in `lock_path`.

    Raises:
        LockHeldError: another process holds the lock.
    """
    marker = None
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockHeldError from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        marker = _acquire_marker(path, wait=wait)
    try:
        yield  # closing the file releases its lock
    finally:
        if marker is not None:
            marker.release()


def _acquire_marker(path: Path, *, wait: bool) -> BaseFileLock:
    from filelock import SoftFileLock, Timeout  # imports asyncio, which would delay translation

    marker = path.with_name(f"{path.name}.marker")
    lock = SoftFileLock(marker)
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        raise LockHeldError(marker) from None
    return lock
