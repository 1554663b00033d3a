"""Documents translated without a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mtkit.decoding.estimation.estimator import Estimate
from mtkit.decoding.text.line import Translation
from mtkit.extras.documents.document import Document, open_document


def translate_cats(text: str) -> str:
    """Return a text with a new word for "cat", which stands in texts, and for "cot"."""
    return text.replace("cat", "kätzé").replace("cot", "no text")


def opened(content: str | bytes, name: str, *, all_texts: bool = False) -> Document:
    """Return a document with this content."""
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    document = open_document(Path(name), None, all_texts, None)
    assert document is not None
    return document


def translated(
    content: str | bytes,
    name: str,
    translate: Callable[[str], str] = translate_cats,
    *,
    confidence: float = 0.5,
    min_confidence: float | None = None,
    language: str | None = "de",
    all_texts: bool = False,
) -> bytes:
    """Return a document in which each line of each text is replaced by `translate`."""
    document = opened(content, name, all_texts=all_texts)
    document.min_confidence = min_confidence
    document.language = language
    estimate = Estimate(confidence=confidence)
    for number, line in enumerate(document.lines(0), start=1):
        assert document.output(number, Translation(translate(line.text), estimate=estimate)) == b""
    return document.end()
