"""Texts of Word (`.docx`): each paragraph is translated, with the formatting of its parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from html import unescape
from itertools import groupby
from xml.sax.saxutils import escape

from mtkit.extras.documents.codes import InlineCode, NumberedText
from mtkit.extras.documents.markup import Element, read_elements
from mtkit.extras.documents.units import DocumentError, TextUnit, unit_at

_TEXT = '<w:t xml:space="preserve">'
_END = "</w:t></w:r>"
_IGNORED = ("pPr", "proofErr", "lastRenderedPageBreak", "del", "moveFrom")
"""Elements of a paragraph that need not stay between its texts."""
_ACCEPTED = ("ins", "moveTo", "smartTag")
"""Elements around runs that are read as if only the runs were there."""
_BREAKS = ("tab", "br", "cr")
"""Elements of a run that divide its text."""
_SIGNS = ("noBreakHyphen", "sym")
"""Elements of a run that stand within its text."""
_OF_TEXT = {"rPr", "t", "softHyphen", "lastRenderedPageBreak", *_BREAKS, *_SIGNS}
"""Elements of a run that is nothing but text."""
_EMPTY_RUN = re.compile(rf"<w:r>(?:<w:rPr>(?:(?!</w:rPr>).)*</w:rPr>)?{_TEXT}{_END}", re.DOTALL)
_FIELD_END = re.compile(r"w:fldCharType=\"(begin|end)\"")


def read_word(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each paragraph that has a text; text boxes divide a paragraph.

    Raises:
        DocumentError: the elements have another prefix than `w:`.
    """
    if "xmlns:w=" not in document:
        raise DocumentError(0, "XML of Word with an unusual prefix; save it again in Word")
    for paragraph in read_elements(document, "p"):
        children = [child for child in paragraph.children if child.local_name != "pPr"]
        for has_box, parts in groupby(children, _has_box):
            if not has_box:
                yield from _read_runs(list(parts))


def _read_runs(parts: Sequence[Element]) -> Iterator[TextUnit]:
    """Yield a unit for parts of a paragraph, if they have a text."""
    shown = list(_find_parts(parts))
    base = _find_base_format(shown)
    if base is not None:
        coded = NumberedText(_read_parts(shown, base))
        write = partial(_write, coded, f"<w:r>{base}{_TEXT}")
        yield unit_at(coded.text, parts[0].start, parts[-1].end, write)


def _has_box(part: Element) -> bool:
    """Return whether a part of a paragraph holds paragraphs, which are read before it."""
    return "<w:txbxContent" in part.raw


def _find_parts(children: Iterable[Element]) -> Iterator[Element]:
    """Yield the runs and codes of a paragraph, as if its tracked changes were accepted."""
    for child in children:
        if child.local_name in _ACCEPTED:
            yield from _find_parts(child.children)
        elif child.local_name not in _IGNORED:
            yield child


def _find_base_format(parts: Iterable[Element]) -> str | None:
    """Return the format of the first text, which is outside of all codes; None without a text."""
    for part in parts:
        for run in (part, *_find_holder(part).children):
            if run.child("t") is not None:
                return _format_of(run)
    return None


def _write(coded: NumberedText, begin: str, translation: str) -> str:
    """Return the runs of a paragraph, without empty ones."""
    written = coded.restore(translation.replace("\n", ""), escape)
    return _EMPTY_RUN.sub("", f"{begin}{written}{_END}")


def _find_holder(part: Element) -> Element:
    """Return the element that holds the runs of a hyperlink or a content control."""
    return part.child("sdtContent") or part


def _format_of(part: Element) -> str:
    """Return the properties of a run, as they are written."""
    properties = part.child("rPr")
    if properties is None:
        return ""
    return properties.raw


def _read_parts(parts: Iterable[Element], base: str) -> Iterator[str | InlineCode]:
    """Yield the texts of a paragraph; what is formatted otherwise than its start, between codes.

    A field, with all its runs, and anything that is not a run of text are one code each.
    """
    depth = 0  # of fields within each other
    field = ""
    # Each code ends the run before it, and begins the run of the text after it.
    in_base = f"<w:r>{base}{_TEXT}"
    for format_, group in groupby(parts, _format_of):
        in_format = f"<w:r>{format_}{_TEXT}"
        resume = in_base
        for part in group:
            names = {child.local_name for child in part.children}
            is_text = part.local_name == "r" and names <= _OF_TEXT
            sides = _FIELD_END.findall(part.raw)
            depth += sides.count("begin") - sides.count("end")
            if depth > 0:
                field += part.raw
            elif part.local_name in ("hyperlink", "sdt"):
                holder = _find_holder(part)
                opening = part.document[part.start : holder.inner_start]
                closing = part.document[holder.inner_end : part.end]
                yield InlineCode(f"{_END}{opening}{resume}", part.name)
                yield from _read_parts(_find_parts(holder.children), base)
                yield InlineCode(f"{_END}{closing}{resume}", part.name, is_closing=True)
            elif field or not is_text:
                yield InlineCode(f"{_END}{field}{part.raw}{resume}")
                field = ""
            else:
                if resume != in_format:
                    yield InlineCode(f"{_END}{in_format}", "r")
                    resume = in_format
                yield from _read_run(part)
        if resume != in_base:
            yield InlineCode(f"{_END}{in_base}", "r", is_closing=True)
    if field:
        yield InlineCode(f"{_END}{field}{in_base}")


def _read_run(run: Element) -> Iterator[str | InlineCode]:
    for child in run.children:
        if child.local_name == "t":
            yield unescape(child.inner).replace("\n", " ")
        elif child.local_name in (*_BREAKS, *_SIGNS):
            # The texts on both sides are lines of their own.
            line_end = "\n" if child.local_name in _BREAKS else ""
            yield from (line_end, InlineCode(f"</w:t>{child.raw}{_TEXT}"), line_end)
