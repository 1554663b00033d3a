"""The interface of DeepL: /v2/translate, /v2/languages, /v2/usage, /v2/glossaries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field
from starlette.exceptions import HTTPException

from mtkit.extras.serve.codes import CLIENT_CODES, ClientCodes
from mtkit.extras.serve.directions import MAX_ECHO
from mtkit.extras.serve.entities import decode_entities, encode_entities
from mtkit.extras.serve.glossaries import GLOSSARY_ENDPOINTS, use_glossary
from mtkit.extras.serve.interface import (
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
    """The fields of /v2/translate."""

    text: TextOrTexts
    target_lang: str
    source_lang: str | None = Field(None, description="default: the language is detected")
    show_billed_characters: bool = False
    formality: Literal["default", "prefer_more", "prefer_less"] = "default"
    tag_handling: Literal["", "xml", "html"] = ""
    ignore_tags: TextOrTexts = Field([], description="tags whose elements have no text")
    glossary_id: str = Field("", description="the id of a glossary that a client has created")
    glossary: Refused = None
    custom_instructions: Refused = None
    style_id: Refused = None
    translation_memory_id: Refused = None


class LanguagesFields(Fields):
    """The fields of /v2/languages."""

    type: Literal["source", "target"] = "source"


async def _translate(service: Service, fields: DeeplFields) -> dict[str, Any]:
    texts = as_list(fields.text)
    _refuse_ignored_text(texts, fields.ignore_tags)
    has_entities = fields.tag_handling != ""
    decode = decode_entities if has_entities else str
    encode = encode_entities if has_entities else str
    decoded = list(map(decode, texts))
    directions, _ = await service.choose_directions(decoded, fields.source_lang, fields.target_lang)
    settings: dict[str, Any] = {}
    if fields.glossary_id:
        for direction in directions:
            settings["glossary"] = use_glossary(service, fields.glossary_id, direction)
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
        Endpoint("POST", "/v2/translate", _translate, DeeplFields),
        Endpoint("GET", "/v2/languages", _list_languages, LanguagesFields),
        Endpoint("GET", "/v2/usage", _count_usage),
        *GLOSSARY_ENDPOINTS,
    ],
    refuse=lambda refusal: {"message": refusal.detail},
)
