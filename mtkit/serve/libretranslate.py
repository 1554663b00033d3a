"""The interface of LibreTranslate: /translate, /detect, /languages, /frontend/settings, /health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Annotated, Any, Literal

from pydantic import Field

from mtkit.config.base import Settings
from mtkit.serve.interface import MAX_LIST, Endpoint, Interface, choose_directions, join_lines
from mtkit.serve.service import Refusal, ServedLine, Service, Wish

MAX_ALTERNATIVES = 10
TextList = Annotated[list[str], Field(min_length=1, max_length=MAX_LIST)]


class KeyFields(Settings):
    """The fields of what has no other."""

    api_key: str = ""


class TranslateFields(KeyFields):
    """The fields of /translate."""

    q: str | TextList = Field(description="the text, or a list of texts")
    source: str = Field(description="language code, or auto")
    target: str
    format: Literal["text"] = "text"
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES)


class DetectFields(KeyFields):
    """The fields of /detect."""

    q: str


async def _translate(service: Service, fields: TranslateFields) -> dict[str, Any]:
    texts = [fields.q] if isinstance(fields.q, str) else fields.q
    source = "" if fields.source == "auto" else fields.source
    directions, detected = await choose_directions(
        service, texts, source, fields.target, ("source", "target")
    )
    wish = Wish(alternatives=fields.alternatives)
    translations = await service.translate(texts, directions, wish)
    answer: dict[str, Any] = {"translatedText": [join_lines(lines) for lines in translations]}
    if detected:
        answer["detectedLanguage"] = [_describe(each)[0] for each in detected]
    if fields.alternatives:
        answer["alternatives"] = [_join_alternatives(lines) for lines in translations]
    if isinstance(fields.q, str):
        return {name: values[0] for name, values in answer.items()}
    return answer


def _join_alternatives(lines: Sequence[ServedLine]) -> list[str]:
    """Return other translations of a text: the first ones of all its lines, then the second ones.

    A line without another translation keeps its best one.
    """
    texts: list[str] = []
    for others in zip_longest(*(line.alternatives for line in lines)):
        pairs = zip(lines, others, strict=True)
        texts.append("\n".join(line.text if other is None else other for line, other in pairs))
    return texts


def _describe(detected: Mapping[str, float]) -> list[dict[str, Any]]:
    return [
        {"confidence": round(100 * probability, 1), "language": language}
        for language, probability in detected.items()
    ]


async def _detect(service: Service, fields: DetectFields) -> list[dict[str, Any]]:
    (detected,) = await service.detect([fields.q])
    return _describe(detected)


async def _list_languages(service: Service, fields: Settings) -> list[dict[str, Any]]:
    directions = service.directions
    return [
        {"code": code, "name": name, "targets": directions.targets_of(code)}
        for code, name in directions.names.items()
    ]


async def _tell_settings(service: Service, fields: Settings) -> dict[str, Any]:
    directions = service.directions
    first = next(iter(directions.by_pair.values()))
    sides = {"source": first.source, "target": first.target}
    return {
        "apiKeys": service.has_keys,
        "charLimit": service.limits.max_characters,
        "frontendTimeout": 500,
        "keyRequired": service.has_keys,
        "language": {
            side: {"code": code, "name": directions.names[code]} for side, code in sides.items()
        },
        "suggestions": False,
        "supportedFilesFormat": [],
    }


async def _report_health(service: Service, fields: Settings) -> dict[str, str]:
    return {"status": "ok"}


def refuse_with_error(refusal: Refusal) -> dict[str, str]:
    """Return a refusal as LibreTranslate and the page read it."""
    return {"error": refusal.message}


LIBRETRANSLATE = Interface(
    "LibreTranslate",
    [
        Endpoint("POST", "/translate", _translate, TranslateFields),
        Endpoint("POST", "/detect", _detect, DetectFields),
        Endpoint("GET", "/languages", _list_languages, KeyFields, needs_key=False),
        Endpoint("GET", "/frontend/settings", _tell_settings, needs_key=False),
        Endpoint("GET", "/health", _report_health, needs_key=False),
    ],
    refuse_with_error,
)
