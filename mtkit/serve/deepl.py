"""The interface of DeepL: /v2/translate, /v2/languages, /v2/usage."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from mtkit.config.base import Settings
from mtkit.serve.interface import MAX_LIST, Endpoint, Interface, choose_directions, join_lines
from mtkit.serve.service import Refusal, Service

UNLIMITED = 1_000_000_000_000
"""What DeepL reports as the limit of accounts without a limit."""
VARIANTS = {"en": ["EN-GB", "EN-US"], "pt": ["PT-BR", "PT-PT"]}
"""Target languages that DeepL's clients accept only with a region."""


class DeeplFields(Settings):
    """The fields of /v2/translate; those with one possible value ask for what mtkit always does."""

    text: Annotated[list[str], Field(min_length=1, max_length=MAX_LIST)]
    target_lang: str
    source_lang: str = Field("", description="default: the language is detected")
    show_billed_characters: bool = False
    split_sentences: Literal["1"] = "1"
    preserve_formatting: Literal[False, "0"] = False
    formality: Literal["default", "prefer_more", "prefer_less"] = "default"
    model_type: Literal["prefer_quality_optimized"] = "prefer_quality_optimized"


class LanguagesFields(Settings):
    """The fields of /v2/languages."""

    type: Literal["source", "target"] = "source"


async def _translate(service: Service, fields: DeeplFields) -> dict[str, Any]:
    directions, _ = await choose_directions(
        service,
        fields.text,
        fields.source_lang,
        fields.target_lang,
        ("source_lang", "target_lang"),
    )
    results = await service.translate(fields.text, directions)
    translations: list[dict[str, Any]] = []
    for text, direction, lines in zip(fields.text, directions, results, strict=True):
        source = direction.source.upper()
        translation = {"detected_source_language": source, "text": join_lines(lines)}
        billed = {"billed_characters": len(text)} if fields.show_billed_characters else {}
        translations.append({**translation, **billed})
    return {"translations": translations}


async def _list_languages(service: Service, fields: LanguagesFields) -> list[dict[str, Any]]:
    directions = service.directions
    if fields.type == "source":
        return [
            {"language": code.upper(), "name": directions.names[code]}
            for code in directions.sources
        ]
    targets = sorted({target for _, target in directions.by_pair})
    return [
        {"language": variant, "name": directions.names[code], "supports_formality": False}
        for code in targets
        for variant in VARIANTS.get(code, [code.upper()])
    ]


async def _count_usage(service: Service, fields: Settings) -> dict[str, int]:
    return {"character_count": service.characters, "character_limit": UNLIMITED}


def _refuse(refusal: Refusal) -> dict[str, str]:
    return {"message": refusal.message}


DEEPL = Interface(
    "DeepL",
    [
        Endpoint("POST", "/v2/translate", _translate, DeeplFields),
        Endpoint("GET", "/v2/languages", _list_languages, LanguagesFields),
        Endpoint("GET", "/v2/usage", _count_usage),
    ],
    _refuse,
)
