"""What all interfaces share: endpoints, fields of requests, and texts with lines and entities."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from pydantic import AfterValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException

from mtkit.config.base import Settings, dotted
from mtkit.corpus.characters import is_printable
from mtkit.decoding.text.line import Translation
from mtkit.extras.serve.directions import MAX_ECHO

JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
UPLOAD_TYPE = "multipart/form-data"
_TAG = re.compile(r"(<[a-zA-Z/!?][^>]*>)")
_NAME = r"(?:#\d+|#[xX][\da-fA-F]+|\w+);"
_NAME_OF_ENTITY = re.compile(_NAME)
_ENTITY = re.compile(f"&{_NAME}")
_BARE_AMPERSAND = re.compile(f"&(?!{_NAME})")
_BARE_BRACKET = re.compile(r"<(?![a-zA-Z/!?])")
EMPTY_VALUES: Sequence[Any] = (None, False, 0, "", "0", "false", [], {})
"""What a field holds when its client does not ask for anything."""
TextOrTexts = str | list[str]


def _require_empty(value: Any) -> Any:
    if value not in EMPTY_VALUES:
        raise PydanticCustomError("refused", "not supported by mtkit")
    return value


Refused = Annotated[Any, AfterValidator(_require_empty)]
"""A field that would change the translation, and is not supported unless it is empty."""


class Fields(Settings):
    """The fields of a request; a field that is null counts as missing, as clients mean it.

    Fields that are not named here cannot change a translation, and are ignored.
    """

    model_config = ConfigDict(extra="ignore", arbitrary_types_allowed=True)
    api_key: str = ""
    """The key of LibreTranslate's clients; others send it in a header."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Endpoint:
    """A path that clients call."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    answer: Callable[..., Coroutine[Any, Any, Any]]
    """Returns a response, or data for one in JSON.

    It gets the service, the fields and, by their names, parts of the path.
    """
    fields: type[Fields] = Fields
    media_types: Sequence[str] = (JSON_TYPE, FORM_TYPE)
    """How the fields of a POST request may come."""


@dataclass(frozen=True)
class Interface:
    """The paths of one kind of client, and how it reads errors."""

    prefix: str
    """The beginning of its paths; also errors of other paths there have its form."""
    endpoints: Sequence[Endpoint]
    refuse: Callable[[HTTPException], Any]
    """Returns the JSON of a refusal."""


def read_fields(kind: type[Fields], content: bytes | Mapping[str, Any]) -> Fields:
    """Return the fields of a request from JSON or from the values of a form.

    Raises:
        HTTPException: a field is missing or not supported, or its value is wrong.
    """
    try:
        if isinstance(content, bytes):
            return kind.model_validate_json(content)
        return kind.model_validate(content, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        name = dotted(first["loc"])[:MAX_ECHO] or "the request"
        raise HTTPException(400, f"{name}: {first['msg']}") from None


def read_form(body: bytes) -> dict[str, Any]:
    """Return the values of a form; those of a field that is repeated as a list."""
    form = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    return {name: values if len(values) > 1 else values[0] for name, values in form.items()}


def as_list(texts: TextOrTexts) -> list[str]:
    """Return one text or several as a list."""
    return [texts] if isinstance(texts, str) else texts


def join_lines(lines: Sequence[Translation]) -> str:
    """Return the translation of a text from those of its lines."""
    return "\n".join(line.text for line in lines)


def choose_codec(has_markup: bool) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """Return what decodes texts before their translation, and what encodes translations."""
    return (decode_entities, encode_entities) if has_markup else (str, str)


def decode_entities(html: str) -> str:
    """Return HTML with characters for the entities outside tags.

    An entity stays if its character would be markup, a control character or a line break.
    """
    pieces = _TAG.split(html)
    # Every second piece is a tag, whose attributes stay as they are.
    pieces[::2] = [_ENTITY.sub(_decode, piece) for piece in pieces[::2]]
    return "".join(pieces)


def encode_entities(text: str) -> str:
    """Return text as HTML, in which tags and entities stay and other markup is encoded."""
    escaped = _BARE_AMPERSAND.sub("&amp;", text)
    return _BARE_BRACKET.sub("&lt;", escaped)


def _decode(entity: re.Match[str]) -> str:
    character = unescape(entity[0])
    begins_entity = character == "&" and _NAME_OF_ENTITY.match(entity.string, entity.end())
    is_kept = begins_entity or character in "<>" or not is_printable(character)
    return entity[0] if is_kept else character
