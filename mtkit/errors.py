"""The ways a command ends early; `cli` turns each into one line on stderr and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MtkitError(Exception):
    """Something failed while running (disk full, out of memory, diverged): exit code 1."""

    exit_code = 1


class UserError(MtkitError):
    """The user can mend it before any work: where, what was found, what to do. Exit code 2."""

    exit_code = 2


class SettingError(UserError):
    """What a setting names cannot be used; who knows where it was written says that, too."""

    def __init__(self, key: tuple[str | int, ...], message: str) -> None:
        super().__init__(f"{'.'.join(map(str, key))}: {message}")
        self.key = key


@contextmanager
def blame_setting(key: tuple[str | int, ...]) -> Iterator[None]:
    """Around what a setting leads to."""
    try:
        yield
    except UserError as error:
        raise SettingError(key, str(error)) from error


class Interrupted(MtkitError):  # noqa: N818 - it is no error
    """Stopped by a signal with everything saved: exit code 128 + its number."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation was refused: by Python, by PyTorch on any device, or to map a file."""
    refusals = ("out of memory", "can't allocate memory", "Cannot allocate memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(text in str(error) for text in refusals)
    )
