"""The interface of LibreTranslate: /translate, /translate_file, /detect, /languages and others.

The page at / uses it too, with a field of our own, `details`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Literal

from pydantic import Field
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse

from mtkit.decoding.estimation.flags import FLAGS
from mtkit.decoding.text.line import Translation
from mtkit.extras.serve.codes import Ranking
from mtkit.extras.serve.documents import find_document, list_suffixes, send_document, start_document
from mtkit.extras.serve.interface import (
    UPLOAD_TYPE,
    Endpoint,
    Fields,
    Interface,
    TextOrTexts,
    as_list,
    choose_codec,
    join_lines,
)
from mtkit.extras.serve.service import Service

MAX_ALTERNATIVES = 10


class TranslateFields(Fields):
    """The fields of /translate."""

    q: TextOrTexts
    source: str
    """A language, or auto."""
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES)
    glossary_id: str = ""
    """The id of a glossary that a client of DeepL has created."""
    details: bool = False
    """Whether the answer has the confidence, warnings and links of each line."""


class FileFields(Fields):
    """The fields of /translate_file."""

    file: UploadFile
    source: str
    target: str
    address: str
    """The URL of this server, which the client does not send."""


class DetectFields(Fields):
    """The fields of /detect."""

    q: str


async def _translate(service: Service, fields: TranslateFields) -> dict[str, Any]:
    decode, encode = choose_codec(fields.format == "html")
    texts = list(map(decode, as_list(fields.q)))
    directions, detected = await service.choose_directions(texts, fields.source, fields.target)
    options = service.choose_glossary(fields.glossary_id, directions)
    options["alternatives"] = fields.alternatives
    if fields.details:
        options |= {"scores": True, "alignments": True}
    translations = await service.translate(texts, directions, **options)
    answer: dict[str, Any] = {}
    answer["translatedText"] = [encode(join_lines(lines)) for lines in translations]
    if detected:
        answer["detectedLanguage"] = [_describe(ranking)[0] for ranking in detected]
    if fields.alternatives:
        others = map(_join_alternatives, translations)
        answer["alternatives"] = [list(map(encode, each)) for each in others]
    if fields.details:
        pairs = zip(directions, translations, strict=True)
        answer["details"] = [
            {"languages": direction.path.split("-"), "lines": list(map(_describe_line, lines))}
            for direction, lines in pairs
        ]
    if isinstance(fields.q, str):
        return {name: values[0] for name, values in answer.items()}
    return answer


def _join_alternatives(lines: Sequence[Translation]) -> list[str]:
    """Return other translations of a text: the first ones of all its lines, then the second ones.

    A line without another translation keeps its best one.
    """
    texts: list[str] = []
    for others in zip_longest(*(line.alternatives for line in lines)):
        pairs = zip(others, lines, strict=True)
        texts.append(join_lines([other or line for other, line in pairs]))
    return texts


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


async def _translate_file(service: Service, fields: FileFields) -> dict[str, str]:
    document = start_document(service, fields.file, fields.source, fields.target)
    await document.work
    name = f"{document.identifier}-{document.key}{document.path.suffix}"
    return {"translatedFileUrl": f"{fields.address}download_file/{name}"}


async def _send_file(service: Service, fields: Fields, name: str) -> FileResponse:
    identifier, _, key = name.partition(".")[0].partition("-")
    return send_document(find_document(service, identifier, key))


async def _detect(service: Service, fields: DetectFields) -> list[dict[str, Any]]:
    (ranking,) = await service.detect([fields.q])
    return _describe(ranking)


async def _list_languages(service: Service, fields: Fields) -> list[dict[str, Any]]:
    languages: list[dict[str, Any]] = []
    pairs = sorted(service.directions.by_pair)
    for code, name in service.directions.languages.names.items():
        targets = [target for source, target in pairs if source == code]
        languages.append({"code": code, "name": name, "targets": targets})
    return languages


async def _tell_settings(service: Service, fields: Fields) -> dict[str, Any]:
    return {
        "charLimit": service.options.max_characters,
        "keyRequired": bool(service.options.keys),
        "supportedFilesFormat": list_suffixes(),
    }


async def _report_health(service: Service, fields: Fields) -> dict[str, str]:
    return {"status": "ok"}


LIBRETRANSLATE = Interface(
    prefix="/",
    endpoints=[
        Endpoint("POST", "/translate", _translate, TranslateFields),
        Endpoint("POST", "/translate_file", _translate_file, FileFields, [UPLOAD_TYPE]),
        Endpoint("GET", "/download_file/{name}", _send_file),
        Endpoint("POST", "/detect", _detect, DetectFields),
        Endpoint("GET", "/languages", _list_languages),
        Endpoint("GET", "/frontend/settings", _tell_settings),
        Endpoint("GET", "/health", _report_health),
    ],
    refuse=lambda refusal: {"error": refusal.detail},
)
