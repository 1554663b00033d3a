"""File operations that fail, one at a time, as on a disk that is full, broken or write-protected.

A command runs in a child of the fork server of `crashes`. Opening, renaming and deleting are events
of Python's audit hooks, which come before the operation and may refuse it. Writing and flushing are
no events, so files are opened with a class of ours. What safetensors writes in Rust is one write.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError

from crashes import NEVER, SERVER, work_in
from mtkit.cli.main import main

REASONS = {
    "open to write": [errno.EACCES, errno.EMFILE, errno.ENOSPC, errno.EROFS],
    "open to read": [errno.EIO, errno.EMFILE, errno.EACCES],
    "write": [errno.ENOSPC, errno.EIO, errno.EDQUOT],
    "flush": [errno.EIO, errno.ENOSPC],
    "rename": [errno.EACCES, errno.EIO, errno.EXDEV],
    "unlink": [errno.EACCES, errno.EIO, errno.EBUSY],
    "mkdir": [errno.ENOSPC, errno.EACCES],
    "rmdir": [errno.EBUSY, errno.EIO],
    "chmod": [errno.EPERM],
    "symlink": [errno.EPERM, errno.ENOSPC],
}
"""Errors with which each kind of operation may fail, in turn."""
EVENTS = {
    "os.rename": "rename",  # and os.replace
    "os.remove": "unlink",
    "os.mkdir": "mkdir",
    "os.rmdir": "rmdir",
    "os.chmod": "chmod",
    "os.symlink": "symlink",
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True)
class Fault:
    """The failure of one file operation, or of all from that one on."""

    operation: int
    """Number of the operation, from 0."""
    is_lasting: bool = False
    """Whether all later operations that write fail, too, as on a full disk."""


@dataclass(frozen=True)
class FaultyEnding:
    """How a command ended whose file operations may have failed."""

    code: int
    operations: Sequence[str]
    """The kinds of its operations, in their order."""


def run_with_fault(arguments: Sequence[str], home: Path, fault: Fault | None) -> FaultyEnding:
    """Run `mtkit ARGUMENTS` in the folder `home`; files outside of it never fail."""
    hears, tells = SERVER.Pipe(duplex=False)
    process = SERVER.Process(target=_child, args=(list(arguments), home, fault, tells))
    process.start()
    tells.close()
    operations = hears.recv()
    process.join()
    assert process.exitcode is not None
    return FaultyEnding(process.exitcode, operations)


def _child(arguments: list[str], home: Path, fault: Fault | None, tells: Connection) -> None:
    """In the child: run the command, and send the kinds of its operations."""
    work_in(home)
    injector = _Injector(home, fault or Fault(NEVER))
    injector.install()
    try:
        main(arguments)
    finally:
        tells.send(injector.operations)


class _Injector:
    """Counts operations on files of `home`, and lets one of them fail."""

    def __init__(self, home: Path, fault: Fault) -> None:
        self.home, self.fault = f"{home}/", fault
        self.operations: list[str] = []

    def install(self) -> None:
        sys.addaudithook(self._audit)
        flush, save, opened = os.fsync, safetensors.torch.save_file, io.open

        def fsync(descriptor: int) -> None:
            self.count("flush", os.readlink(f"/proc/self/fd/{descriptor}"))
            flush(descriptor)

        def save_file(weights: Any, path: Any, metadata: Any = None) -> None:
            try:
                self.count("write", path)
            except OSError as error:
                Path(path).write_bytes(b"a part of the weights")
                message = f"I/O error: {error.strerror} (os error {error.errno})"
                raise SafetensorError(message) from None
            save(weights, path, metadata)

        def open_file(file: Any, mode: str = "r", *positional: Any, **named: Any) -> Any:
            if not self.is_at_home(file) or not {*mode} & {*"wax+"}:
                return opened(file, mode, *positional, **named)
            return self.open_to_write(file, mode, *positional, **named)

        patched: list[tuple[Any, str, Callable[..., Any]]] = [
            (os, "fsync", fsync),
            (safetensors.torch, "save_file", save_file),
            (io, "open", open_file),
            (builtins, "open", open_file),
        ]
        for module, name, function in patched:
            setattr(module, name, function)

    def open_to_write(
        self,
        file: Any,
        mode: str,
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """Open a file as Python does, with writes that may fail."""
        raw = _FaultyFile(self, file, mode.replace("b", "").replace("t", ""), opener)
        buffer: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffer if "b" in mode else io.TextIOWrapper(buffer, encoding, errors, newline)

    def count(self, kind: str, path: Any) -> None:
        """Count an operation, and raise the error of the fault if it is its turn."""
        if not self.is_at_home(path):
            return
        number = len(self.operations)
        self.operations.append(kind)
        at = self.fault.operation
        is_later = at != NEVER and number > at and kind != "open to read"
        if number == at or (self.fault.is_lasting and is_later):
            reasons = REASONS[kind]
            reason = errno.ENOSPC if self.fault.is_lasting else reasons[number % len(reasons)]
            raise OSError(reason, os.strerror(reason), str(path))

    def is_at_home(self, path: Any) -> bool:
        if not isinstance(path, str | Path):  # a descriptor
            return False
        is_relative = not os.path.isabs(path)
        return is_relative or str(path).startswith(self.home)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            self.count("open to write" if flags & WRITING else "open to read", path)
        elif event in EVENTS:
            self.count(EVENTS[event], arguments[0])


class _FaultyFile(io.FileIO):
    """A file whose writes are counted, and may fail."""

    def __init__(self, injector: _Injector, path: Any, mode: str, opener: Any) -> None:
        super().__init__(path, mode, opener=opener)
        self._injector, self._path = injector, path

    def write(self, data: Any) -> int:
        self._injector.count("write", self._path)
        return super().write(data) or 0

    def truncate(self, size: int | None = None) -> int:
        self._injector.count("write", self._path)
        return super().truncate(size)
