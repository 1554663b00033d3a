"""Type and shape checks in tests: jaxtyping binds the letters of shapes, beartype checks types.

Only the first calls of a test are checked: loops call the same functions again, and checking each
call would take as long as everything else. Functions are prepared for checks at their first call,
because most are never called, and functions inside of functions are defined again and again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype import beartype
from jaxtyping import install_import_hook

MAX_CHECKS = 150
"""Number of calls that are checked in one test."""

_left = 0


def install_checks() -> None:
    """Check the functions and dataclasses of all modules of mtkit that are imported from now on."""
    # The hook lets a module decorate all that it defines with `jaxtyping.jaxtyped`, which works at
    # once: for all functions, also those that are never called.
    jaxtyping.jaxtyped = lambda typechecker: checked  # type: ignore[assignment]
    install_import_hook("mtkit", "beartype.beartype")


def restart_checks() -> None:
    """Check the next calls; for the start of a test."""
    global _left
    _left = MAX_CHECKS


def stop_checks() -> None:
    """Check no more calls in this test."""
    global _left
    _left = 0


_with_checks = functools.partial(jaxtyping.jaxtyped, typechecker=beartype)


def checked(defined: Any) -> Any:
    """Return a function with checks, or a class whose fields are checked if it is a dataclass."""
    if not isinstance(defined, type):
        return _checked_function(defined)
    if dataclasses.is_dataclass(defined) and "__init__" in vars(defined):
        defined.__init__ = _checked_function(defined.__init__)  # type: ignore[method-assign]
    return defined


def _checked_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that checks its arguments and its result, as long as checks are left."""
    build = functools.cache(lambda: _with_checks(function))

    @functools.wraps(function)
    def check(*arguments: Any, **named: Any) -> Any:
        global _left
        if _left <= 0:
            return function(*arguments, **named)
        _left -= 1
        return build()(*arguments, **named)

    return check
