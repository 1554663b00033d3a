"""What all interfaces share: endpoints and their description, and fields of requests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from pydantic import AfterValidator, ConfigDict, ValidationError, model_validator
from pydantic.json_schema import models_json_schema
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException

from mtkit.artifacts.manifest import VERSION
from mtkit.config.base import Settings, dotted
from mtkit.corpus.files import tell_once
from mtkit.decoding.text.line import Translation
from mtkit.extras.serve.directions import MAX_ECHO
from mtkit.extras.serve.service import Service
from mtkit.report import say

JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
SCHEMAS = "#/components/schemas/{model}"
RESPONSES = {"default": {"description": "an answer, or a refusal in the form of the interface"}}
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

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        if values.keys() - cls.model_fields.keys():
            # Without their names, which are what a client sent.
            schema = cls.__name__
            tell_once(
                say, f"ignored fields of a request; those of {schema} in /openapi.json are used"
            )
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Endpoint:
    """A path that clients call."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    answer: Callable[[Service, Any], Coroutine[Any, Any, Any]]
    """Returns a response, or data for a JSON response, to fields of the class `fields`."""
    fields: type[Fields] = Fields
    takes_forms: bool = True
    """Whether the fields may come as a form, besides JSON."""
    needs_key: bool = False
    """Whether a client needs a key, if there are keys; each POST does."""


@dataclass(frozen=True)
class Interface:
    """The paths of one kind of client, and how it reads errors."""

    prefix: str
    """The beginning of its paths; also errors of other paths there have its form."""
    endpoints: Sequence[Endpoint]
    refuse: Callable[[HTTPException], Any]
    """Returns the JSON of a refusal."""


def read_fields(endpoint: Endpoint, body: bytes, media_type: str) -> Fields:
    """Return the fields of a request in JSON, or as a form if the endpoint takes forms.

    Raises:
        HTTPException: the body is not of this type, a field is not supported, or its value is
            wrong.
    """
    try:
        if media_type == JSON_TYPE:
            return endpoint.fields.model_validate_json(body)
        if media_type == FORM_TYPE and endpoint.takes_forms:
            return endpoint.fields.model_validate(_read_form(body), strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = dotted(first["loc"])[:MAX_ECHO] or "the request"
        raise HTTPException(400, f"{name}: {first['msg']}") from None
    raise HTTPException(415, f"send JSON as {JSON_TYPE}")


def _read_form(body: bytes) -> dict[str, Any]:
    """Return the values of a form; those of a field that is repeated as a list."""
    form = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    return {name: values if len(values) > 1 else values[0] for name, values in form.items()}


def as_list(texts: TextOrTexts) -> list[str]:
    """Return one text or several as a list."""
    return [texts] if isinstance(texts, str) else texts


def join_lines(lines: Sequence[Translation]) -> str:
    """Return the translation of a text from those of its lines."""
    return "\n".join(line.text for line in lines)


def join_alternatives(lines: Sequence[Translation]) -> list[str]:
    """Return other translations of a text: the first ones of all its lines, then the second ones.

    A line without another translation keeps its best one.
    """
    texts: list[str] = []
    for others in zip_longest(*(line.alternatives for line in lines)):
        texts.append(join_lines([other or line for other, line in zip(others, lines, strict=True)]))
    return texts


def describe_interfaces(interfaces: Sequence[Interface]) -> dict[str, Any]:
    """Return the OpenAPI description of all endpoints."""
    paths: dict[str, Any] = {}
    posted: list[tuple[type[Fields], Literal["validation"]]] = []
    for endpoint in chain.from_iterable(interface.endpoints for interface in interfaces):
        methods = paths.setdefault(endpoint.path, {})
        methods[endpoint.method.lower()] = _describe(endpoint)
        if endpoint.method == "POST":
            posted.append((endpoint.fields, "validation"))
    _, schemas = models_json_schema(posted, ref_template=SCHEMAS)
    return {
        "openapi": "3.1.0",
        "info": {"title": "mtkit serve", "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }


def _describe(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.method != "POST":
        properties = endpoint.fields.model_json_schema().get("properties", {})
        fields: list[dict[str, Any]] = []
        for name, schema in properties.items():
            is_in_path = f"{{{name}}}" in endpoint.path
            place = {"in": "path", "required": True} if is_in_path else {"in": "query"}
            fields.append({"name": name, "schema": schema, **place})
        return {"responses": RESPONSES, "parameters": fields}
    reference = {"schema": {"$ref": SCHEMAS.format(model=endpoint.fields.__name__)}}
    content = {JSON_TYPE: reference}
    if endpoint.takes_forms:
        content[FORM_TYPE] = reference
    return {"responses": RESPONSES, "requestBody": {"required": True, "content": content}}
