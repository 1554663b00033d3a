"""The interface of DeepL: texts, documents and glossaries.

Glossaries are kept in memory until the server stops.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

from pydantic import Field
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, JSONResponse, Response

from mtkit.decoding.glossary import open_glossary
from mtkit.errors import UserError
from mtkit.extras.serve.codes import DEEPL_TARGETS
from mtkit.extras.serve.directions import MAX_ECHO
from mtkit.extras.serve.documents import find_document, send_document, start_document
from mtkit.extras.serve.interface import (
    UPLOAD_TYPE,
    Endpoint,
    Fields,
    Interface,
    Refused,
    TextOrTexts,
    as_list,
    choose_codec,
    join_lines,
)
from mtkit.extras.serve.service import ClientGlossary, Service

UNLIMITED = 1_000_000_000_000
"""What DeepL reports as the limit of accounts without a limit."""
MAX_STATUS_SECONDS = 2.0
"""How long the status of a document waits for its translation."""
MAX_GLOSSARIES = 100
"""Most glossaries; each of them is as small as a request."""
QUOTA_EXCEEDED = 456
"""DeepL's status of a request above such a limit."""


class DeeplFields(Fields):
    """The fields of what is to be translated."""

    target_lang: str
    source_lang: str | None = None
    """None: the language is detected."""
    formality: Literal["default", "prefer_more", "prefer_less"] = "default"
    glossary_id: str = ""
    """The id of a glossary that a client has created."""
    style_id: Refused = None
    translation_memory_id: Refused = None


class TextFields(DeeplFields):
    """The fields of /v2/translate."""

    text: TextOrTexts
    tag_handling: Literal["", "xml", "html"] = ""
    ignore_tags: TextOrTexts = ""
    """Tags whose elements have no text."""
    custom_instructions: Refused = None


class DocumentFields(DeeplFields):
    """The fields of /v2/document."""

    file: UploadFile
    output_format: Refused = None


class DocumentKeyFields(Fields):
    """The fields of requests about a document."""

    document_key: str


class GlossaryFields(Fields):
    """The fields of a new glossary."""

    name: str
    source_lang: str
    target_lang: str
    entries: str = Field(min_length=1)
    entries_format: Literal["tsv"] = "tsv"


class LanguagesFields(Fields):
    """The fields of /v2/languages."""

    type: Literal["source", "target"] = "source"


async def _translate(service: Service, fields: TextFields) -> dict[str, Any]:
    texts = as_list(fields.text)
    _refuse_ignored_text(texts, fields.ignore_tags)
    decode, encode = choose_codec(fields.tag_handling != "")
    decoded = list(map(decode, texts))
    directions, _ = await service.choose_directions(decoded, fields.source_lang, fields.target_lang)
    settings = service.choose_glossary(fields.glossary_id, directions)
    results = await service.translate(decoded, directions, **settings)
    translations = [
        {
            "detected_source_language": direction.source.upper(),
            "text": encode(join_lines(lines)),
            "billed_characters": len(text),
        }
        for text, direction, lines in zip(texts, directions, results, strict=True)
    ]
    return {"translations": translations}


def _refuse_ignored_text(texts: Sequence[str], tags: TextOrTexts) -> None:
    """Refuse texts with words in an element that the client wants to keep untranslated."""
    names = ",".join(as_list(tags)).split(",")
    for name in filter(None, map(str.strip, names)):
        element = re.compile(rf"<{re.escape(name)}(?:\s[^>]*)?(?<!/)>\s*[^\s<]")
        if any(map(element.search, texts)):
            raise HTTPException(400, f"ignore_tags: text inside <{name[:MAX_ECHO]}> is not kept")


async def _start_document(service: Service, fields: DocumentFields) -> dict[str, str]:
    document = start_document(
        service, fields.file, fields.source_lang, fields.target_lang, fields.glossary_id
    )
    return {"document_id": document.identifier, "document_key": document.key}


async def _check_document(
    service: Service, fields: DocumentKeyFields, document_id: str
) -> dict[str, Any]:
    work = find_document(service, document_id, fields.document_key).work
    # DeepL's client waits for 5 s before it asks again.
    await asyncio.wait([work], timeout=MAX_STATUS_SECONDS)
    status: dict[str, Any] = {"document_id": document_id, "status": "translating"}
    if work.done():
        try:
            status |= {"status": "done", "billed_characters": work.result()}
        except HTTPException as refusal:
            status |= {"status": "error", "error_message": refusal.detail}
    return status


async def _send_document(
    service: Service, fields: DocumentKeyFields, document_id: str
) -> FileResponse:
    return send_document(find_document(service, document_id, fields.document_key))


async def _create_glossary(service: Service, fields: GlossaryFields) -> Response:
    direction = service.directions.find(fields.source_lang, fields.target_lang)
    if len(direction.legs) > 1:
        raise HTTPException(400, f"languages: {direction.path} takes two models")
    if len(service.glossaries) >= MAX_GLOSSARIES:
        raise HTTPException(QUOTA_EXCEEDED, "there is no room for this glossary; delete another")
    lines = filter(str.strip, fields.entries.splitlines())
    try:
        terms = dict(line.split("\t")[:2] for line in lines)
        glossary = await asyncio.to_thread(open_glossary, terms)
    except ValueError:
        message = "write in each line a term, a tab and its translation"
        raise HTTPException(400, f"entries: {message}") from None
    except UserError as error:
        raise HTTPException(400, f"entries: {error}") from None
    glossary_id = str(uuid4())
    record = {
        "glossary_id": glossary_id,
        "name": fields.name,
        "ready": True,
        "source_lang": direction.source,
        "target_lang": direction.target,
        "creation_time": datetime.now(UTC).isoformat(),
        "entry_count": len(glossary),
    }
    service.glossaries[glossary_id] = ClientGlossary(glossary, direction, record)
    return JSONResponse(record, 201)


async def _list_glossaries(service: Service, fields: Fields) -> dict[str, Any]:
    return {"glossaries": [each.record for each in service.glossaries.values()]}


async def _delete_glossary(service: Service, fields: Fields, glossary_id: str) -> Response:
    service.find_glossary(glossary_id)
    del service.glossaries[glossary_id]
    return Response(status_code=204)


async def _list_pairs(service: Service, fields: Fields) -> dict[str, Any]:
    pairs = [
        {"source_lang": source, "target_lang": target}
        for (source, target), direction in service.directions.by_pair.items()
        if len(direction.legs) == 1
    ]
    return {"supported_languages": pairs}


async def _list_languages(service: Service, fields: LanguagesFields) -> list[dict[str, Any]]:
    directions = service.directions
    is_target = fields.type == "target"
    tags = directions.targets if is_target else directions.sources
    codes = DEEPL_TARGETS if is_target else {}
    languages: list[dict[str, Any]] = []
    for tag in tags:
        for code in codes.get(tag, [tag.upper()]):
            name = directions.languages.names[tag]
            languages.append({"language": code, "name": name, "supports_formality": False})
    return languages


async def _count_usage(service: Service, fields: Fields) -> dict[str, int]:
    return {"character_count": service.characters, "character_limit": UNLIMITED}


DEEPL = Interface(
    prefix="/v2/",
    endpoints=[
        Endpoint("POST", "/v2/translate", _translate, TextFields),
        Endpoint("GET", "/v2/languages", _list_languages, LanguagesFields),
        Endpoint("GET", "/v2/usage", _count_usage),
        Endpoint("POST", "/v2/document", _start_document, DocumentFields, [UPLOAD_TYPE]),
        Endpoint("POST", "/v2/document/{document_id}", _check_document, DocumentKeyFields),
        Endpoint("POST", "/v2/document/{document_id}/result", _send_document, DocumentKeyFields),
        Endpoint("GET", "/v2/glossary-language-pairs", _list_pairs),
        Endpoint("POST", "/v2/glossaries", _create_glossary, GlossaryFields),
        Endpoint("GET", "/v2/glossaries", _list_glossaries),
        Endpoint("DELETE", "/v2/glossaries/{glossary_id}", _delete_glossary),
    ],
    refuse=lambda refusal: {"message": refusal.detail},
)
