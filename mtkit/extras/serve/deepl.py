"""The interface of DeepL: /v2/translate, /v2/document, /v2/languages, /v2/usage, /v2/glossaries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse

from mtkit.extras.serve.codes import CLIENT_CODES, ClientCodes
from mtkit.extras.serve.directions import MAX_ECHO
from mtkit.extras.serve.documents import find_document, send_document, start_document
from mtkit.extras.serve.entities import decode_entities, encode_entities
from mtkit.extras.serve.glossaries import GLOSSARY_ENDPOINTS, choose_glossary
from mtkit.extras.serve.interface import (
    UPLOAD_TYPE,
    Endpoint,
    Fields,
    Interface,
    Refused,
    TextOrTexts,
    as_list,
    join_lines,
)
from mtkit.extras.serve.service import Service

UNLIMITED = 1_000_000_000_000
"""What DeepL reports as the limit of accounts without a limit."""


class DeeplFields(Fields):
    """The fields of what is to be translated."""

    target_lang: str
    source_lang: str | None = None
    """None: the language is detected."""
    formality: Literal["default", "prefer_more", "prefer_less"] = "default"
    glossary_id: str = ""
    """The id of a glossary that a client has created."""
    glossary: Refused = None
    style_id: Refused = None
    translation_memory_id: Refused = None


class TextFields(DeeplFields):
    """The fields of /v2/translate."""

    text: TextOrTexts
    show_billed_characters: bool = False
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


class LanguagesFields(Fields):
    """The fields of /v2/languages."""

    type: Literal["source", "target"] = "source"


async def _translate(service: Service, fields: TextFields) -> dict[str, Any]:
    texts = as_list(fields.text)
    _refuse_ignored_text(texts, fields.ignore_tags)
    has_entities = fields.tag_handling != ""
    decode = decode_entities if has_entities else str
    encode = encode_entities if has_entities else str
    decoded = list(map(decode, texts))
    directions, _ = await service.choose_directions(decoded, fields.source_lang, fields.target_lang)
    settings = choose_glossary(service, fields.glossary_id, directions)
    results = await service.translate(decoded, directions, **settings)
    translations: list[dict[str, Any]] = []
    for text, direction, lines in zip(texts, directions, results, strict=True):
        source = direction.source.upper()
        translation: dict[str, Any] = {
            "detected_source_language": source,
            "text": encode(join_lines(lines)),
        }
        if fields.show_billed_characters:
            translation["billed_characters"] = len(text)
        translations.append(translation)
    return {"translations": translations}


def _refuse_ignored_text(texts: Sequence[str], tags: TextOrTexts) -> None:
    """Refuse texts with words in an element that the client wants to keep untranslated."""
    names = [name.strip() for tag in as_list(tags) for name in tag.split(",")]
    for name in filter(None, names):
        element = re.compile(rf"<{re.escape(name)}(?:\s[^>]*)?(?<!/)>\s*[^\s<]")
        if any(map(element.search, texts)):
            raise HTTPException(400, f"ignore_tags: text inside <{name[:MAX_ECHO]}> is not kept")


async def _start_document(service: Service, fields: DocumentFields) -> dict[str, str]:
    identifier = await start_document(
        service, fields.file, fields.source_lang, fields.target_lang, fields.glossary_id
    )
    return {"document_id": identifier, "document_key": service.documents[identifier].key}


async def _check_document(
    service: Service, fields: DocumentKeyFields, document_id: str
) -> dict[str, Any]:
    work = find_document(service, document_id, fields.document_key).work
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


async def _list_languages(service: Service, fields: LanguagesFields) -> list[dict[str, Any]]:
    directions = service.directions
    is_target = fields.type == "target"
    languages: list[dict[str, Any]] = []
    for tag in directions.targets if is_target else directions.sources:
        codes = CLIENT_CODES.get(tag, ClientCodes()).deepl if is_target else ()
        for code in codes or [tag.upper()]:
            name = directions.names[tag]
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
        *GLOSSARY_ENDPOINTS,
    ],
    refuse=lambda refusal: {"message": refusal.detail},
)
