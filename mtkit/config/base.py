"""What every section of the settings is: frozen, strict data; how one is called, and its faults."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

Probability = Annotated[float, Field(ge=0, lt=1)]
FromHome = Annotated[str, Field(pattern=r"^[^\x00]+$"), AfterValidator(os.path.expanduser)]
"""A path that may begin with ~, as in a shell."""
Paths = FromHome | list[FromHome]
EXPECTED = {
    "bool": "true or false",
    "dict": "settings (key: value)",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "settings (key: value)",
    "string": "text",
}
Key = tuple[str | int, ...]
"""Path of a setting: ("model", "heads"), or ("data", "train", 0, "source") inside a list."""

Group = TypeVar("Group", bound="Settings")


class Settings(BaseModel):
    """Frozen; an unknown key is an error; no infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    def part(self, group: type[Group], **others: Any) -> Group:
        """`group` with those of its settings that this section has too, whatever its kind."""
        names = group.model_fields.keys() - {"kind"}
        return group(**{name: value for name, value in self if name in names} | others)

    def without_defaults(self) -> dict[str, Any]:
        """What differs from the defaults, as plain data, and the kind of every section left.

        Requests are hashed in this form, so that a setting that is added later changes no hash.
        """
        fields = type(self).model_fields
        return {
            name: value.without_defaults() if isinstance(value, Settings) else value
            for name, value in self
            if name == "kind" or value != fields[name].get_default()
        }


def dotted(key: Key) -> str:
    """The path as people write it: model.heads."""
    return ".".join(str(part) for part in key)


def flattened(tree: Mapping[str, Any], above: Key = ()) -> dict[str, Any]:
    """The values of nested data by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        key = (*above, name)
        found |= flattened(value, key) if isinstance(value, Mapping) else {dotted(key): value}
    return found


def first_complaint(error: ValidationError) -> tuple[str, str]:
    """Setting and complaint, for settings that stand in no config that somebody writes."""
    detail = error.errors(include_url=False)[0]
    return dotted(detail["loc"]), complaint_of(detail)


def complaint_of(detail: Mapping[str, Any], shown: Callable[[Any], str] = reprlib.repr) -> str:
    """One of pydantic's errors in words: what was expected, and what was found."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":  # of what does not go together, and says so itself
        return str(context["error"])
    told = detail["msg"].replace("Input should", "should")
    expected = EXPECTED.get(kind.split("_")[0])
    if kind == "extra_forbidden":
        told = "unknown setting"
    elif kind == "literal_error":
        told = f"expected {context['expected']}"
    elif kind == "string_pattern_mismatch":  # of FromHome alone
        told = "expected a path"
    elif expected is not None and kind.endswith(("_type", "_parsing", "_from_float")):
        told = f"expected {expected}"
    return f"{told}, found {shown(detail['input'])}"
