"""Checks of what Python code passes to mtkit; the errors say what was expected.

A string is a sequence of strings, too: without a check, each of its letters would be a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any


def check_listed(values: Any, name: str, item: str = "line") -> Iterable[Any]:
    """Return the values, which may be any iterable, such as a list or a generator.

    `name`: what the error calls the values. `item`: what each of them is.

    Raises:
        TypeError: the values are no iterable, a single text or path, or a mapping or set.
    """
    is_single = isinstance(values, str | bytes | Path)
    is_unordered = isinstance(values, Mapping | Set)
    if is_single or is_unordered or not isinstance(values, Iterable):
        hint = f"; for one {item}, write [{item}]" if isinstance(values, str) else ""
        raise TypeError(f"{name}: expected a list of {item}s, not {describe_type(values)}{hint}")
    return values


def list_texts(values: Any, name: str, item: str = "line") -> list[str]:
    """Return the values as a list, if each is a string; arguments are as in `check_listed`.

    Raises:
        TypeError: the values are no list, or one of them is no string.
    """
    texts = list(check_listed(values, name, item))
    for number, text in enumerate(texts, 1):
        check_text(text, f"{name}: {item} {number}")
    return texts


def check_text(value: Any, name: str) -> str:
    """Return the value, which must be a string; otherwise raise TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a string, not {describe_type(value)}")
    return value


def describe_type(value: Any) -> str:
    """Return the type of a value, for a message."""
    return "None" if value is None else f"a value of type {type(value).__name__}"
