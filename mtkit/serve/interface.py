"""What all interfaces share: endpoints and their description, fields of requests, answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import parse_qsl

from pydantic import ValidationError
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from mtkit.artifacts.manifest import VERSION
from mtkit.config.base import Settings, dotted, error_message
from mtkit.serve.directions import ServedDirection
from mtkit.serve.service import Refusal, ServedLine, Service

MAX_FIELDS = 100
"""Largest number of fields of a request."""
MAX_LIST = 10_000
"""Largest number of items in a list of a request, and of pairs in a form."""
MAX_ECHO = 40
"""How many characters of a client's value a message repeats."""
JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
SCHEMAS = "#/components/schemas/{model}"


class JsonResponse(Response):
    """JSON in UTF-8; a lone surrogate, which UTF-8 cannot have, becomes a question mark."""

    media_type = JSON_TYPE

    def render(self, content: Any) -> bytes:
        """Return the content as bytes."""
        return json_line(content)


def json_line(content: Any) -> bytes:
    """Return JSON without line feeds."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


class NoFields(Settings):
    """The fields of a request that has none."""


@dataclass(frozen=True)
class Endpoint:
    """A path that clients call."""

    method: Literal["GET", "POST"]
    path: str
    answer: Callable[[Service, Any], Coroutine[Any, Any, Any]]
    """Returns a response, or data for a JSON response, to fields of the class `fields`."""
    fields: type[Settings] = NoFields
    needs_key: bool = True
    """Whether clients need a key, if the server has keys."""
    takes_forms: bool = True
    """Whether the fields may come as a form, besides JSON."""


@dataclass(frozen=True)
class Interface:
    """The paths of one kind of client, and how it reads errors."""

    name: str
    endpoints: Sequence[Endpoint]
    refuse: Callable[[Refusal], Any]
    """Returns the JSON of a refusal."""
    wrong_key_status: int = 403


def read_fields(endpoint: Endpoint, body: bytes, content_type: str) -> Settings:
    """Return the fields of a request in JSON, or as a form if the endpoint takes forms.

    Raises:
        Refusal: the body is not of this type, a field is not supported, or its value is wrong.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    is_form = media_type == FORM_TYPE and endpoint.takes_forms
    if not is_form and media_type != JSON_TYPE:
        form = f", or a form as {FORM_TYPE}" if endpoint.takes_forms else ""
        raise Refusal(415, f"send JSON as {JSON_TYPE}{form}")
    try:
        text = body.decode()
        values = _read_form(endpoint.fields, text) if is_form else json.loads(text)
    except UnicodeDecodeError:
        raise Refusal(400, "the body is not UTF-8") from None
    except RecursionError:
        raise Refusal(400, "the JSON is nested too deeply") from None
    except ValueError as error:
        raise Refusal(400, f"the body cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise Refusal(400, "the body must be a JSON object")
    if len(values) > MAX_FIELDS:
        raise Refusal(400, f"the request has over {MAX_FIELDS} fields")
    # Clients write null for what they do not set.
    values = {name: value for name, value in values.items() if value is not None}
    try:
        return endpoint.fields.model_validate(values, strict=not is_form)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        name = dotted(detail["loc"])[:MAX_ECHO]
        is_unknown = detail["type"] == "extra_forbidden"
        message = "not supported by mtkit" if is_unknown else error_message(detail)
        raise Refusal(400, f"{name}: {message}", name) from None


def _read_form(fields: type[Settings], text: str) -> dict[str, Any]:
    """Return the values of a form; those of a field that is repeated as a list."""
    values: dict[str, Any] = {}
    for name, value in parse_qsl(text, True, errors="strict", max_num_fields=MAX_LIST):
        values.setdefault(name, []).append(value)
    for name, listed in values.items():
        field = fields.model_fields.get(name)
        is_list = field is not None and str(field.annotation).startswith("list")
        if len(listed) == 1 and not is_list:
            values[name] = listed[0]
    return values


async def choose_directions(
    service: Service, texts: Sequence[str], source: str, target: str, fields: tuple[str, str]
) -> tuple[list[ServedDirection], list[dict[str, float]]]:
    """Return the direction of each text, and the probabilities of languages that were detected.

    `source`: empty to detect the language of each text. `fields`: what the interface calls source
    and target.

    Raises:
        Refusal: the server does not translate this pair, or the texts exceed a limit.
    """
    if source:
        service.check_size(texts)
        return [_find_direction(service, source, target, fields)] * len(texts), []
    detected = await service.detect(texts)
    chosen = [_find_direction(service, next(iter(each)), target, fields) for each in detected]
    return chosen, detected


def _find_direction(
    service: Service, source: str, target: str, fields: tuple[str, str]
) -> ServedDirection:
    directions = service.directions
    pair = (directions.find_language(source), directions.find_language(target))
    if pair in directions.by_pair:
        return directions.by_pair[pair]
    if pair[0] not in directions.sources:
        field, value, choices = fields[0], source, directions.sources
    else:
        field, value, choices = fields[1], target, directions.targets_of(pair[0])
    where = f"; from {pair[0]} there is " if field == fields[1] else "; choose from "
    message = f"{field}: {value[:MAX_ECHO]!r} is not served{where}{', '.join(choices)}"
    raise Refusal(400, message, field)


def join_lines(lines: Sequence[ServedLine]) -> str:
    """Return the translation of a text from those of its lines."""
    return "\n".join(line.text for line in lines)


def describe_interfaces(interfaces: Sequence[Interface], statuses: Sequence[int]) -> Any:
    """Return the OpenAPI description of all endpoints, whose responses have these statuses."""
    responses = {str(status): {"description": HTTPStatus(status).phrase} for status in statuses}
    paths: dict[str, Any] = {}
    forms: list[tuple[type[Settings], Literal["validation"]]] = []
    for interface in interfaces:
        for endpoint in interface.endpoints:
            described: dict[str, Any] = {"tags": [interface.name], "responses": responses}
            if endpoint.method == "GET":
                properties = endpoint.fields.model_json_schema().get("properties", {})
                described["parameters"] = [
                    {"name": name, "in": "query", "schema": schema}
                    for name, schema in properties.items()
                ]
            else:
                forms.append((endpoint.fields, "validation"))
                schema = {"schema": {"$ref": SCHEMAS.format(model=endpoint.fields.__name__)}}
                types = [JSON_TYPE, FORM_TYPE] if endpoint.takes_forms else [JSON_TYPE]
                described["requestBody"] = {
                    "required": True,
                    "content": dict.fromkeys(types, schema),
                }
            paths[endpoint.path] = {endpoint.method.lower(): described}
    _, schemas = models_json_schema(forms, ref_template=SCHEMAS)
    return {
        "openapi": "3.1.0",
        "info": {"title": "mtkit serve", "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }
