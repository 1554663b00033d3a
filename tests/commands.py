"""The command line, called in the process of the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import pytest

from mtkit.cli.main import main

Stdin = Callable[[BinaryIO | str | None], None]
"""Sets the input of commands: a stream, text, or None for a closed stdin."""


def call(*arguments: str) -> int:
    """Run `mtkit ARGUMENTS` and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert isinstance(ended.value.code, int)
    return ended.value.code
