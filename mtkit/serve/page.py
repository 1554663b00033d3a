"""The page for people at /, and what its script asks for."""

from __future__ import annotations

from dataclasses import asdict
from importlib import resources
from typing import Any

from pydantic import Field
from starlette.responses import Response

from mtkit.config.base import Settings
from mtkit.decoding.estimation.flags import FLAGS
from mtkit.serve.interface import Endpoint, Interface, choose_directions
from mtkit.serve.libretranslate import MAX_ALTERNATIVES, refuse_with_error
from mtkit.serve.service import ServedLine, Service, Wish

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The page loads its own files, and its script may not make HTML of text."""


class PageFields(Settings):
    """What the script of the page sends to translate a text."""

    text: str
    source: str = Field("", description="language code; empty: the language is detected")
    target: str
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES)


async def _translate(service: Service, fields: PageFields) -> dict[str, Any]:
    directions, _ = await choose_directions(
        service, [fields.text], fields.source, fields.target, ("source", "target")
    )
    wish = Wish(fields.alternatives, has_details=True)
    (lines,) = await service.translate([fields.text], directions, wish)
    return {"languages": directions[0].path.split("-"), "lines": list(map(_describe, lines))}


def _describe(line: ServedLine) -> dict[str, Any]:
    warnings = [flag.meaning for flag in FLAGS if flag.name in line.flags]
    return {**asdict(line), "flags": warnings}


async def _list_directions(service: Service, fields: Settings) -> dict[str, Any]:
    directions = service.directions
    return {
        "names": directions.names,
        "targets": {source: directions.targets_of(source) for source in directions.sources},
        "maxCharacters": service.limits.max_characters,
        "maxLines": service.limits.max_lines,
        "needsKey": service.has_keys,
    }


def _file(path: str, name: str, media_type: str) -> Endpoint:
    """Return the endpoint of a file of the page."""
    content = (resources.files("mtkit.serve") / name).read_bytes()

    async def send(service: Service, fields: Settings) -> Response:
        headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "no-cache"}
        return Response(content, headers=headers, media_type=media_type)

    return Endpoint("GET", path, send, needs_key=False)


PAGE = Interface(
    "the page",
    [
        _file("/", "page.html", "text/html"),
        _file("/page.css", "page.css", "text/css"),
        _file("/page.js", "page.js", "text/javascript"),
        _file("/page.svg", "page.svg", "image/svg+xml"),
        Endpoint("GET", "/page/directions", _list_directions, needs_key=False),
        Endpoint("POST", "/page/translate", _translate, PageFields, takes_forms=False),
    ],
    refuse_with_error,
)
