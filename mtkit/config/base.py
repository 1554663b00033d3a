"""The base class of every section of the settings (frozen and strict), and its error messages."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator

from mtkit.errors import UserError

Probability = Annotated[float, Field(ge=0, lt=1)]


def _expand(path: Any, validate: Callable[[Any], str]) -> str:
    """Expand ~ in a path; the path may have bytes that are not UTF-8, which pydantic refuses."""
    checked = path
    if isinstance(path, str):  # Python keeps such bytes as lone surrogates
        checked = path.encode(errors="replace").decode()
    validate(checked)
    return str(os.path.expanduser(path))


FromHome = Annotated[str, Field(pattern=r"^[^\x00]+$"), WrapValidator(_expand)]
"""A path that may begin with ~, as in a shell."""
Paths = FromHome | list[FromHome]
EXPECTED = {  # by the first part of pydantic's type of error
    "bool": "true or false",
    "dict": "settings (key: value)",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "settings (key: value)",
    "string": "text",
    "tuple": "a list",
}
Key = tuple[str | int, ...]
"""Path of a setting: ("model", "heads"), or ("data", "train", 0, "source") inside a list."""

Group = TypeVar("Group", bound="Settings")


class Scope(Enum):
    """What a setting matters for; a setting without a scope matters for every result.

    The scope is part of the type: `device: Annotated[str, Scope.EXECUTION] = "auto"`.
    """

    EXECUTION = "how the work is done, shown and stored: no result depends on it"
    TRAINING = "training alone: neither encoded corpora nor what weights mean depend on it"
    LENGTH = "the planned length of a training run"
    ENDING = "when a training run ends early, and which weights its model gets"


class Settings(BaseModel):
    """A section: frozen, with strict types; unknown keys and infinity are errors."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, defer_build=True
    )

    def part(self, group: type[Group], **others: Any) -> Group:
        """Return a section of another class with the settings that both classes have."""
        values: dict[str, Any] = {}
        for name, value in self:
            if name in group.model_fields and name != "kind":
                values[name] = value
        return group(**values | others)


def dotted(key: Key) -> str:
    """Return the path as people write it: model.heads."""
    return ".".join(map(str, key))


def flattened(tree: Mapping[str, Any], above: Key = ()) -> dict[str, Any]:
    """Return the values of nested data by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        key = (*above, name)
        if isinstance(value, Mapping):
            flat |= flattened(value, key)
        else:
            flat[dotted(key)] = value
    return flat


def validated(section: type[Group], values: Any, where: str = "") -> Group:
    """Return a section made from `values`; raise UserError for the first error, with `where`."""
    try:
        return section.model_validate(values)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        parts = [where, dotted(detail["loc"]), error_message(detail)]
        raise UserError(": ".join(part for part in parts if part)) from None


def error_message(detail: Mapping[str, Any], show: Callable[[Any], str] = reprlib.repr) -> str:
    """Return one of pydantic's errors in words: what was expected, and what was found."""
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind == "value_error":  # from a validator of ours
        return str(context["error"])
    found = f"found {show(detail['input'])}"
    if kind == "extra_forbidden":
        return f"unknown setting, {found}"
    if kind == "literal_error":
        return f"expected {context['expected']}, {found}"
    if kind == "string_pattern_mismatch":  # only FromHome has a pattern
        return f"expected a path, {found}"
    type_name = kind.split("_")[0]  # the first part of "int_parsing" and "int_from_float"
    if type_name in EXPECTED and kind.endswith(("_type", "_parsing", "_from_float")):
        return f"expected {EXPECTED[type_name]}, {found}"
    message = detail["msg"].replace("Input should", "should")
    return f"{message}, {found}"
