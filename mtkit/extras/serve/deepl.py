"""The interface of DeepL: /v2/translate, /v2/languages, /v2/usage."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from mtkit.extras.serve.interface import (
    Endpoint,
    Fields,
    Interface,
    TextOrTexts,
    as_list,
    join_lines,
)
from mtkit.extras.serve.service import Service

UNLIMITED = 1_000_000_000_000
"""What DeepL reports as the limit of accounts without a limit."""
VARIANTS = {"en": ["EN-GB", "EN-US"], "pt": ["PT-BR", "PT-PT"]}
"""Target languages that DeepL's clients accept only with a region."""


class DeeplFields(Fields):
    """The fields of /v2/translate; those with one possible value ask for what mtkit always does."""

    text: TextOrTexts
    target_lang: str
    source_lang: str | None = Field(None, description="default: the language is detected")
    show_billed_characters: bool = False
    split_sentences: Literal["1"] = "1"
    preserve_formatting: Literal[False, "false", "0"] = False
    formality: Literal["default", "prefer_more", "prefer_less"] = "default"
    model_type: Literal["prefer_quality_optimized"] = "prefer_quality_optimized"


class LanguagesFields(Fields):
    """The fields of /v2/languages."""

    type: Literal["source", "target"] = "source"


async def _translate(service: Service, fields: DeeplFields) -> dict[str, Any]:
    texts = as_list(fields.text)
    directions, _ = await service.choose_directions(texts, fields.source_lang, fields.target_lang)
    results = await service.translate(texts, directions)
    translations: list[dict[str, Any]] = []
    for text, direction, lines in zip(texts, directions, results, strict=True):
        source = direction.source.upper()
        translation: dict[str, Any] = {
            "detected_source_language": source,
            "text": join_lines(lines),
        }
        if fields.show_billed_characters:
            translation["billed_characters"] = len(text)
        translations.append(translation)
    return {"translations": translations}


async def _list_languages(service: Service, fields: LanguagesFields) -> list[dict[str, Any]]:
    directions = service.directions
    is_target = fields.type == "target"
    variants = VARIANTS if is_target else {}
    return [
        {"language": variant, "name": directions.names[code], "supports_formality": False}
        for code in (directions.targets if is_target else directions.sources)
        for variant in variants.get(code, [code.upper()])
    ]


async def _count_usage(service: Service, fields: Fields) -> dict[str, int]:
    return {"character_count": service.characters, "character_limit": UNLIMITED}


DEEPL = Interface(
    prefix="/v2/",
    endpoints=[
        Endpoint("POST", "/v2/translate", _translate, DeeplFields),
        Endpoint("GET", "/v2/languages", _list_languages, LanguagesFields),
        Endpoint("GET", "/v2/usage", _count_usage),
    ],
    refuse=lambda refusal: {"message": refusal.detail},
)
