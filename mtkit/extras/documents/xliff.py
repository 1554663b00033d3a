"""XLIFF 1.2 and 2: `<source>` is translated into `<target>`, within which codes stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from xml.sax.saxutils import escape

from mtkit.extras.documents.codes import NumberedText, read_content
from mtkit.extras.documents.markup import Element, read_elements, with_attribute
from mtkit.extras.documents.units import Replacement, Target, TextUnit

_PAIRS = re.compile("g|pc|mrk|sub")
"""Codes around text that is translated."""
_OPEN_STATE = re.compile(r"\sstate=[\"'](?:new|initial|needs-)")
"""The state of a segment or target that is not complete."""
_QUALIFIER = re.compile(r"\s(?:state-qualifier|subState|approved)\s*=\s*(?:\"[^\"]*\"|'[^']*')")
"""What is not true of another translation: more about its state, and that it is approved."""
_LANGUAGES = {"source-language": "target-language", "srcLang": "trgLang"}
"""The attributes that name both languages, in version 1.2 and in version 2."""


def read_xliff(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each text, and one for each file without a target language."""
    for element in read_elements(document, "trans-unit", "segment", "file", "xliff"):
        attributes = element.attributes
        for from_name, to_name in _LANGUAGES.items():
            if from_name in attributes and to_name not in attributes:
                yield TextUnit((), partial(_write_language, element, to_name))
        source = element.child("source")
        if source is not None and element.inherited("translate") != "no":
            yield _read_segment(element, source)


def _read_segment(segment: Element, source: Element) -> TextUnit:
    coded = NumberedText(read_content(source, _PAIRS))
    target = segment.child("target")
    translations: list[str] = []
    is_reviewed = False
    if target is not None:
        translated = NumberedText(read_content(target, _PAIRS))
        # Some programs write a target of nothing but codes for one that is to be filled.
        if translated.has_text or not coded.has_text:
            translations.append(translated.text.strip())
        is_open = _OPEN_STATE.search(segment.tag + target.tag)
        is_reviewed = not is_open and translated.codes == coded.codes
    write = partial(_write_segment, segment, source, coded)
    return TextUnit([coded.text], write, translations, is_reviewed, has_mark=True)


def _write_language(
    holder: Element, attribute: str, translations: Sequence[str], target: Target
) -> Iterator[Replacement]:
    """Yield what adds the target language to a file that lacks it."""
    if target.language is not None:
        tag = with_attribute(holder.tag, attribute, target.language)
        yield Replacement(holder.start, holder.inner_start, tag)


def _write_segment(
    segment: Element,
    source: Element,
    coded: NumberedText,
    translations: Sequence[str],
    target: Target,
) -> Iterator[Replacement]:
    """Yield what writes the target of a segment, and its state."""
    (translation,) = translations
    is_sure = target.is_sure and coded.is_intact(translation)
    # A new target stands in a line of its own if the source does.
    before = source.document[segment.inner_start : source.start]
    spaces = before[len(before.rstrip()) :]
    name = source.name.replace("source", "target")  # with its prefix
    tag = f"{spaces}<{name}>"
    start = end = (segment.child("seg-source") or source).end
    existing = segment.child("target")
    if existing is not None:
        tag = _QUALIFIER.sub("", existing.tag.replace("/>", ">"))
        start = existing.start
        end = existing.end
    is_match = is_sure and target.is_match

    def mark(tag: str, unsure_state: str, qualifier: str, match: str) -> str:
        tag = with_attribute(tag, "state", "translated" if is_sure else unsure_state)
        return with_attribute(tag, qualifier, match) if is_match else tag

    segment_tag = _QUALIFIER.sub("", segment.tag)
    if segment.local_name == "segment":
        segment_tag = mark(segment_tag, "initial", "subState", "mtkit:exact-match")
    elif is_match or not is_sure or " state=" in tag:
        tag = mark(tag, "needs-review-translation", "state-qualifier", "exact-match")
    yield Replacement(segment.start, segment.inner_start, segment_tag)
    content = coded.restore(translation, escape)
    yield Replacement(start, end, f"{tag}{content}</{name}>")
