"""The command line, called in the process of the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import pytest

from mtkit.cli.main import main

Stdin = Callable[[BinaryIO | str | None], None]
"""Gives commands their input: a stream, its text, or none at all."""


def call(*arguments: str) -> int:
    """Exit code of `mtkit ARGUMENTS`."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert isinstance(ended.value.code, int)
    return ended.value.code
