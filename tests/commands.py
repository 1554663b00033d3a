"""The command line, called in the process of the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import pytest

from mtkit.cli.main import main
from mtkit.report import set_debug

Stdin = Callable[[BinaryIO | str | None], None]
"""Sets the input of commands: a stream, text, or None for a closed stdin."""


def call(*arguments: str) -> int:
    """Run `mtkit ARGUMENTS` and return its exit code."""
    set_debug(False)  # an earlier command of this process may have had --debug
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert isinstance(ended.value.code, int)
    return ended.value.code
