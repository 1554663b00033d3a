"""Glossaries that DeepL's clients create; they are kept in memory until the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from mtkit.decoding.glossary import open_glossary
from mtkit.errors import UserError
from mtkit.extras.serve.directions import ServedDirection
from mtkit.extras.serve.interface import Endpoint, Fields
from mtkit.extras.serve.service import ClientGlossary, Service

MAX_GLOSSARIES = 100
MAX_ENTRIES_CHARACTERS = 4_000_000
"""Largest size of all glossaries together."""
QUOTA_EXCEEDED = 456
"""DeepL's status of a request above such a limit."""


class GlossaryFields(Fields):
    """The fields of a new glossary."""

    name: str
    source_lang: str
    target_lang: str
    entries: str
    entries_format: Literal["tsv"] = "tsv"


def choose_glossary(
    service: Service, glossary_id: str, directions: Iterable[ServedDirection]
) -> dict[str, Any]:
    """Return the setting for a client's glossary; none if the client names no glossary.

    Raises:
        HTTPException: there is no such glossary, or it is for another direction.
    """
    if not glossary_id:
        return {}
    chosen = _find_glossary(service, glossary_id)
    if set(directions) - {chosen.direction}:
        raise HTTPException(400, f"glossary_id: the glossary is for {chosen.direction.name}")
    return {"glossary": chosen.glossary}


def _find_glossary(service: Service, glossary_id: str) -> ClientGlossary:
    if glossary_id not in service.client_glossaries:
        raise HTTPException(404, "glossary_id: there is no such glossary")
    return service.client_glossaries[glossary_id]


async def _create(service: Service, fields: GlossaryFields) -> Response:
    direction = service.directions.find(fields.source_lang, fields.target_lang)
    if len(direction.legs) > 1:
        raise HTTPException(400, f"languages: {direction.path} takes two models")
    stored = service.client_glossaries
    size = len(fields.entries) + sum(each.characters for each in stored.values())
    if len(stored) >= MAX_GLOSSARIES or size > MAX_ENTRIES_CHARACTERS:
        raise HTTPException(QUOTA_EXCEEDED, "there is no room for this glossary; delete another")
    rows = [line.split("\t") for line in fields.entries.splitlines() if line.strip()]
    if not rows or any(len(row) < len(("source", "target")) for row in rows):
        raise HTTPException(400, "entries: write in each line a term, a tab and its translation")
    try:
        terms = {source: target for source, target, *_ in rows}
        glossary = await asyncio.to_thread(open_glossary, terms)
    except UserError as error:
        raise HTTPException(400, f"entries: {error}") from None
    record = {
        "glossary_id": str(uuid4()),
        "name": fields.name,
        "ready": True,
        "source_lang": direction.source,
        "target_lang": direction.target,
        "creation_time": datetime.now(UTC).isoformat(),
        "entry_count": len(glossary),
    }
    found = ClientGlossary(glossary, direction, len(fields.entries), record)
    stored[str(record["glossary_id"])] = found
    return JSONResponse(record, 201)


async def _list(service: Service, fields: Fields) -> dict[str, Any]:
    return {"glossaries": [each.record for each in service.client_glossaries.values()]}


async def _delete(service: Service, fields: Fields, glossary_id: str) -> Response:
    _find_glossary(service, glossary_id)
    del service.client_glossaries[glossary_id]
    return Response(status_code=204)


async def _list_pairs(service: Service, fields: Fields) -> dict[str, Any]:
    direct = [each for each in service.directions.by_pair.values() if len(each.legs) == 1]
    pairs = [{"source_lang": each.source, "target_lang": each.target} for each in direct]
    return {"supported_languages": pairs}


GLOSSARY_ENDPOINTS = [
    Endpoint("GET", "/v2/glossary-language-pairs", _list_pairs),
    Endpoint("POST", "/v2/glossaries", _create, GlossaryFields),
    Endpoint("GET", "/v2/glossaries", _list, needs_key=True),
    Endpoint("DELETE", "/v2/glossaries/{glossary_id}", _delete, needs_key=True),
]
