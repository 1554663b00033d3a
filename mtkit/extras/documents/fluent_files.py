"""Fluent (`.ftl`), read with fluent.syntax: each variant of a text is translated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

from mtkit.errors import UserError
from mtkit.extras.documents.codes import InlineCode, NumberedText
from mtkit.extras.documents.units import DocumentError, TextUnit, unit_at

_BRACE = re.compile(r"[{}]")
_LINE_END = re.compile(r"\s*\n\s*")


def read_fluent(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each text of a message or term, its attributes and their variants.

    Raises:
        UserError: fluent.syntax is not installed.
        DocumentError: a part of the file is not Fluent.
    """
    if find_spec("fluent") is None:
        raise UserError("Fluent needs another package: pip install 'mtkit[documents]'")
    from fluent.syntax import FluentParser

    body: Any = FluentParser().parse(document).body
    for entry in body:
        kind = type(entry).__name__
        if kind == "Junk":
            raise DocumentError(entry.span.start, f"not Fluent: {entry.annotations[0].message}")
        if kind in ("Message", "Term"):
            for part in (entry, *entry.attributes):
                if part.value is not None:
                    yield from _read_pattern(document, part.value)


def _read_pattern(document: str, pattern: Any) -> Iterator[TextUnit]:
    """Yield a unit for a pattern; of one with variants, one for each variant and each text."""
    content: list[str | InlineCode] = []
    units: list[TextUnit] = []
    variants: list[Any] = []
    for element in pattern.elements:
        start = element.span.start
        end = element.span.end
        raw = document[start:end]
        if type(element).__name__ == "TextElement":
            text = _LINE_END.sub(" ", raw)
            content.append(text)
            units.append(_unit_of(document, element.span, text, _escape))
        else:
            content.append(InlineCode(raw, meaning=raw))
            variants += getattr(element.expression, "variants", ())
    if variants:
        for variant in variants:
            yield from _read_pattern(document, variant.value)
        yield from units
    else:
        coded = NumberedText(content)
        write = partial(coded.restore, escape=_escape)
        yield _unit_of(document, pattern.span, coded.text, write)


def _unit_of(document: str, span: Any, text: str, write: Callable[[str], str]) -> TextUnit:
    """Return a unit that keeps the indent before a text, without which it would be no text."""
    raw = document[span.start : span.end]
    start = span.start + len(raw) - len(raw.lstrip())
    end = span.start + len(raw.rstrip())
    line_start = document.rfind("\n", 0, start) + 1
    is_first = not document[line_start:start].strip()

    def write_line(translation: str) -> str:
        written = write(translation)
        # At the start of a line these begin an attribute or a variant.
        if is_first and written.startswith((".", "[", "*")):
            sign = written[0]
            rest = written[1:]
            return f'{{"{sign}"}}{rest}'
        return written

    return unit_at(text.strip(), start, end, write_line)


def _escape(text: str) -> str:
    return _BRACE.sub(r'{"\g<0>"}', text)
