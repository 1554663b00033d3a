"""What all interfaces share: endpoints and their description, and fields of requests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal
from urllib.parse import parse_qs

from pydantic import ValidationError, model_validator
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from mtkit.artifacts.manifest import VERSION
from mtkit.config.base import Settings, dotted
from mtkit.decoding.text.line import Translation
from mtkit.extras.serve.directions import MAX_ECHO
from mtkit.extras.serve.service import Service

JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
SCHEMAS = "#/components/schemas/{model}"
RESPONSES = {"default": {"description": "an answer, or a refusal in the form of the interface"}}
TextOrTexts = str | list[str]


class Fields(Settings):
    """The fields of a request; a field that is null counts as missing, as clients mean it."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Endpoint:
    """A path that clients call."""

    method: Literal["GET", "POST"]
    path: str
    answer: Callable[[Service, Any], Coroutine[Any, Any, Any]]
    """Returns a response, or data for a JSON response, to fields of the class `fields`."""
    fields: type[Fields] = Fields
    takes_forms: bool = True
    """Whether the fields may come as a form, besides JSON."""


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
        is_unknown = first["type"] == "extra_forbidden"
        message = "not supported by mtkit" if is_unknown else first["msg"]
        raise HTTPException(400, f"{name}: {message}") from None
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


def describe_interfaces(interfaces: Sequence[Interface]) -> dict[str, Any]:
    """Return the OpenAPI description of all endpoints."""
    paths: dict[str, Any] = {}
    posted: list[tuple[type[Fields], Literal["validation"]]] = []
    for endpoint in chain.from_iterable(interface.endpoints for interface in interfaces):
        paths[endpoint.path] = {endpoint.method.lower(): _describe(endpoint)}
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
    if endpoint.method == "GET":
        properties = endpoint.fields.model_json_schema().get("properties", {})
        fields: list[dict[str, Any]] = []
        for name, schema in properties.items():
            fields.append({"name": name, "in": "query", "schema": schema})
        return {"responses": RESPONSES, "parameters": fields}
    reference = {"schema": {"$ref": SCHEMAS.format(model=endpoint.fields.__name__)}}
    content = {JSON_TYPE: reference}
    if endpoint.takes_forms:
        content[FORM_TYPE] = reference
    return {"responses": RESPONSES, "requestBody": {"required": True, "content": content}}
