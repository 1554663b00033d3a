"""Signatures that are checked as tests run: jaxtyping binds shape letters, beartype looks.

The first looks of each test are taken: a loop calls the same functions again, and looking at every
call takes as long as all of the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jaxtyping
from beartype import beartype

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

LOOKS = 300
"""Number of looks at arguments or results in one test."""

_left = 0


def look_again() -> None:
    """At the start of a test."""
    global _left
    _left = LOOKS
    jaxtyping.config.update("jaxtyping_disable", False)


def checked(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """`function`, which looks at its arguments; jaxtyping makes one for each signature."""
    looking = functools.cache(lambda: beartype(function))  # most are never called

    @functools.wraps(function)
    def look(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        global _left
        _left -= 1
        if _left < 0:
            jaxtyping.config.update("jaxtyping_disable", True)
        return looking()(*arguments, **named)

    return look
