"""Type and shape checks in tests: jaxtyping binds the letters of shapes, beartype checks types.

Only the first calls of a test are checked: loops call the same functions again, and checking each
call would take as long as everything else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jaxtyping
from beartype import beartype

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

MAX_CHECKS = 300
"""Number of calls that are checked in one test."""

_left = 0


def restart_checks() -> None:
    """Check the next calls; for the start of a test."""
    global _left
    _left = MAX_CHECKS
    jaxtyping.config.update("jaxtyping_disable", False)


def checked(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return a function that checks its arguments and its result, as long as checks are left."""
    build = functools.cache(lambda: beartype(function))  # most functions are never called

    @functools.wraps(function)
    def check(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        global _left
        _left -= 1
        if _left < 0:
            jaxtyping.config.update("jaxtyping_disable", True)
        return build()(*arguments, **named)

    return check
