"""Errors that end a command; `cli` turns each into one line on stderr and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

HOW_TO_CONTINUE = "interrupted; run the same command again to continue"
"""What a command says that was stopped, and keeps what is complete."""


class MtkitError(Exception):
    """A failure while running (disk full, out of memory, diverged): exit code 1."""

    exit_code = 1


class UserError(MtkitError):
    """A mistake that the user can fix before any work: exit code 2."""

    exit_code = 2


class TranslationWarning(UserWarning):
    """What some translations lack of their lines; for Python, as commands write it to stderr."""


class SettingError(UserError):
    """An unusable value of a setting; a caller may add the place where it was written."""

    def __init__(self, key: tuple[str | int, ...], message: str) -> None:
        super().__init__(key, message)  # both, so that pickle can restore the error
        self.key, self.message = key, message

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.key))}: {self.message}"


@contextmanager
def blame_setting(key: tuple[str | int, ...]) -> Iterator[None]:
    """Re-raise a UserError as a SettingError that names this key."""
    try:
        yield
    except UserError as error:
        raise SettingError(key, str(error)) from error


class Interrupted(MtkitError):  # noqa: N818 - not an error
    """A stop by a signal, with everything saved: exit code 128 + the signal's number."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(exit_code, message)  # both, so that pickle can restore the error
        self.exit_code, self.message = exit_code, message

    def __str__(self) -> str:
        return self.message


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out: in Python or PyTorch, or as a file or library was mapped."""
    if isinstance(error, MemoryError):
        return True
    messages = (
        "out of memory",
        "can't allocate memory",
        "Cannot allocate memory",
        "failed to map segment",  # of a library that is imported
    )
    is_candidate = isinstance(error, RuntimeError | ImportError)
    return is_candidate and any(text in str(error) for text in messages)
