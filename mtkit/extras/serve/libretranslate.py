"""The interface of LibreTranslate: /translate, /detect, /languages, /frontend/settings, /health.

The page at / uses it too, with a field of our own, `details`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from mtkit.decoding.estimation.flags import FLAGS
from mtkit.decoding.text.line import Translation
from mtkit.extras.serve.codes import Ranking
from mtkit.extras.serve.entities import decode_entities, encode_entities
from mtkit.extras.serve.interface import (
    Endpoint,
    Fields,
    Interface,
    Refused,
    TextOrTexts,
    as_list,
    join_alternatives,
    join_lines,
)
from mtkit.extras.serve.service import Service

MAX_ALTERNATIVES = 10


class KeyFields(Fields):
    """The fields of what has no other."""

    api_key: str = ""


class TranslateFields(KeyFields):
    """The fields of /translate."""

    q: TextOrTexts = Field(description="the text, or a list of texts")
    source: str = Field(description="language code, or auto")
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES)
    glossary: Refused = None
    details: bool = Field(False, description="confidence, warnings and links, for each line")


class DetectFields(KeyFields):
    """The fields of /detect."""

    q: str


async def _translate(service: Service, fields: TranslateFields) -> dict[str, Any]:
    texts = as_list(fields.q)
    encode: Callable[[str], str] = str
    if fields.format == "html":
        texts = list(map(decode_entities, texts))
        encode = encode_entities
    directions, detected = await service.choose_directions(texts, fields.source, fields.target)
    settings = {"scores": True, "alignments": True} if fields.details else {}
    translations = await service.translate(
        texts, directions, alternatives=fields.alternatives, **settings
    )
    answer: dict[str, Any] = {
        "translatedText": [encode(join_lines(lines)) for lines in translations]
    }
    if detected:
        answer["detectedLanguage"] = [_describe(ranking)[0] for ranking in detected]
    if fields.alternatives:
        answer["alternatives"] = [
            list(map(encode, join_alternatives(lines))) for lines in translations
        ]
    if fields.details:
        pairs = zip(directions, translations, strict=True)
        answer["details"] = [
            {"languages": direction.path.split("-"), "lines": list(map(_describe_line, lines))}
            for direction, lines in pairs
        ]
    if isinstance(fields.q, str):
        return {name: values[0] for name, values in answer.items()}
    return answer


def _describe_line(line: Translation) -> dict[str, Any]:
    return {
        "text": line.text,
        "alternatives": [other.text for other in line.alternatives],
        "confidence": line.confidence,
        "flags": [flag.meaning for flag in FLAGS if flag.name in line.flags],
        "links": sorted(line.alignment),
    }


def _describe(ranking: Ranking) -> list[dict[str, Any]]:
    return [
        {"confidence": round(100 * probability, 1), "language": language}
        for language, probability in ranking
    ]


async def _detect(service: Service, fields: DetectFields) -> list[dict[str, Any]]:
    (ranking,) = await service.detect([fields.q])
    return _describe(ranking)


async def _list_languages(service: Service, fields: Fields) -> list[dict[str, Any]]:
    directions = service.directions
    return [
        {"code": code, "name": name, "targets": directions.targets_of(code)}
        for code, name in directions.names.items()
    ]


async def _tell_settings(service: Service, fields: Fields) -> dict[str, Any]:
    directions = service.directions
    first = next(iter(directions.by_pair.values()))
    return {
        "apiKeys": bool(service.options.keys),
        "charLimit": service.options.max_characters,
        "frontendTimeout": 500,
        "keyRequired": bool(service.options.keys),
        "language": {
            "source": {"code": first.source, "name": directions.names[first.source]},
            "target": {"code": first.target, "name": directions.names[first.target]},
        },
        "suggestions": False,
        "supportedFilesFormat": [],
    }


async def _report_health(service: Service, fields: Fields) -> dict[str, str]:
    return {"status": "ok"}


LIBRETRANSLATE = Interface(
    prefix="/",
    endpoints=[
        Endpoint("POST", "/translate", _translate, TranslateFields),
        Endpoint("POST", "/detect", _detect, DetectFields),
        Endpoint("GET", "/languages", _list_languages, KeyFields),
        Endpoint("GET", "/frontend/settings", _tell_settings),
        Endpoint("GET", "/health", _report_health),
    ],
    refuse=lambda refusal: {"error": refusal.detail},
)
