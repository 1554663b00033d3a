"""Records: dataclasses that are stored as JSON, and checked when they are read.

A file may come from an untrusted source, so each value must have the type of its field, and lie
within the bounds that the field names: `ratio: Annotated[float, Field(gt=0)]`. Every number is
finite. Keys that no field has are ignored, so that later versions can add some.
"""

from __future__ import annotations

from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, TypeVar

from pydantic import (
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
)

from mtkit.config.base import dotted
from mtkit.errors import UserError
from mtkit.report import printable


def _refuse(value: object) -> object:
    raise ValueError("does not belong in this file")


Value = TypeVar("Value")
NotStored = Annotated[Value, Field(exclude=True, default=None), PlainValidator(_refuse)]
"""The type of a field that the JSON lacks: `sample: NotStored[tuple[Pair, ...]] = ()`.

A field without a default is None after it was read, and whoever reads it must `replace` it.
"""
OMITTED_IF_EMPTY: Any = Field(exclude_if=lambda value: not value)
"""Marks a field that the JSON lacks if it is None or empty, which must be its default."""
Name = Annotated[str, Field(pattern="^[A-Za-z0-9_-]+$", max_length=64)]
"""A name of one word, such as that of a script; \\w with all of Unicode takes long to compile."""
Names = Annotated[frozenset[Name], PlainSerializer(lambda names: sorted(names))]
"""A set of names, which is stored as a sorted list."""
MAX_PLACE_CHARACTERS = 100
"""Longest place of a wrong value that an error names; its keys may be of any length."""

Record = TypeVar("Record")


def dump_record(value: object) -> Any:
    """Return a dataclass as JSON."""
    (record,) = _adapter(type(value)).dump_python((value,), mode="json", by_alias=True)
    return record


def load_record(kind: type[Record], record: Any, file: Path) -> Record:
    """Return the dataclass that is stored as the JSON of `record`, which was read from `file`.

    Raises:
        UserError: a value is missing, or has another type than its field, or is out of bounds.
    """
    try:
        (value,) = _adapter(kind).validate_python((record,))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        _, *place = first["loc"]
        name = dotted(tuple(place))[:MAX_PLACE_CHARACTERS] or "all of it"
        reason = printable(f"{name}: {first['msg'].removeprefix('Value error, ')}")
        raise UserError(f"{file} is damaged ({reason}); copy it again, or rebuild it") from None
    assert isinstance(value, kind)
    return value


def _adapter(kind: type) -> Any:
    """Return the TypeAdapter of a dataclass; making it takes milliseconds."""
    if kind not in _ADAPTERS:
        # Pydantic takes no settings for a dataclass itself; those of a tuple hold for all inside.
        alone: Any = GenericAlias(tuple, (kind,))
        _ADAPTERS[kind] = TypeAdapter(alone, config=ConfigDict(allow_inf_nan=False))
    return _ADAPTERS[kind]


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}
