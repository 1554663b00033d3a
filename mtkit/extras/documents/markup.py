"""Where the elements of an XML or HTML document stand in its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from mtkit.extras.documents.units import DocumentError

MAX_DEPTH = 200
"""Most elements within each other."""
_STATEMENT = r"\{[%{#][^{}]*[%}#]\}"
"""A statement or a placeholder of a template, whose `>` does not end a tag."""
TAG = (
    r"<![^<>]*>|<(?P<end>/?)(?P<name>[^\s/>\"'<!?][^\s/>\"'<!?{]*)"
    rf"(?:{_STATEMENT}|[^<>\"']|\"[^\"]*\"|'[^']*')*+>"
)
"""A pattern for a declaration or a tag; nothing in it begins another tag, except in quotes."""
MARKUP = re.compile(
    rf"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|{TAG}",
    re.DOTALL,
)
"""A comment, a section, a declaration or a tag."""
_ATTRIBUTE = re.compile(r"\s([^\s=>\"']+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


@dataclass(slots=True)
class Element:
    """An element of a document, and where it stands."""

    document: str
    name: str
    """The name as it is written, which may have a prefix."""
    start: int
    inner_start: int
    """Where the start tag ends."""
    parent: Element | None
    inner_end: int = 0
    """Where the end tag begins; `<x/>` has none."""
    end: int = 0
    children: list[Element] = field(default_factory=list)

    @property
    def local_name(self) -> str:
        """The name without its prefix."""
        return self.name.rpartition(":")[2]

    @property
    def tag(self) -> str:
        """The start tag."""
        return self.document[self.start : self.inner_start]

    @property
    def inner(self) -> str:
        """What stands between the tags."""
        return self.document[self.inner_start : self.inner_end]

    @property
    def end_tag(self) -> str:
        """The end tag; empty if the element is one such as `<x/>`."""
        return self.document[self.inner_end : self.end]

    @property
    def raw(self) -> str:
        """The element with its tags."""
        return self.document[self.start : self.end]

    @property
    def attributes(self) -> Mapping[str, str]:
        """The attributes, without entities."""
        found = _ATTRIBUTE.findall(self.tag)
        return {name: unescape(double or single) for name, double, single in found}

    def child(self, name: str) -> Element | None:
        """Return the first child of a name."""
        for child in self.children:
            if child.local_name == name:
                return child
        return None

    def ancestor(self, name: str) -> Element | None:
        """Return the nearest element of a name around this one."""
        outer = self.parent
        while outer is not None and outer.local_name != name:
            outer = outer.parent
        return outer

    def inherited(self, attribute: str) -> str | None:
        """Return an attribute of the nearest element that has it: this one or one around it."""
        own = self.attributes.get(attribute)
        if own is not None or self.parent is None:
            return own
        return self.parent.inherited(attribute)


def read_elements(document: str, *names: str) -> Iterator[Element]:
    """Yield the outermost elements of XML that have one of the names, each with all that it holds.

    Raises:
        DocumentError: the document is not well-formed, declares entities, or is nested too deeply.
    """
    _check_xml(document)
    open_elements: list[Element] = []
    wanted: Element | None = None
    for token in MARKUP.finditer(document):
        name = token["name"]
        if name is None:
            continue
        if token["end"]:
            element = open_elements.pop()
            element.inner_end, element.end = token.span()
        else:
            parent = open_elements[-1] if open_elements else None
            element = Element(document, name, *token.span(), parent)
            if len(open_elements) == MAX_DEPTH:
                raise DocumentError(element.start, f"over {MAX_DEPTH} elements within each other")
            # The children of other elements are not kept: the root would hold the whole document.
            if wanted is not None and parent is not None:
                parent.children.append(element)
            elif element.local_name in names:
                wanted = element
            if not token[0].endswith("/>"):
                open_elements.append(element)
                continue
            element.inner_end = element.end = element.inner_start
        if element is wanted:
            yield element
            wanted = None


def _check_xml(document: str) -> None:
    parser = expat.ParserCreate("utf-8")

    def refuse_declarations(*doctype: Any) -> None:
        *_, has_declarations = doctype
        if has_declarations:
            place = document.find("<!DOCTYPE")
            raise DocumentError(place, "<!DOCTYPE …> declares entities; remove it")

    parser.StartDoctypeDeclHandler = refuse_declarations
    try:
        parser.Parse(document.encode(), True)
    except expat.ExpatError as error:
        lines = document.split("\n", error.lineno - 1)
        place = len(document) - len(lines[-1])
        reason = expat.ErrorString(error.code)
        raise DocumentError(place, f"not well-formed XML: {reason}") from None


def with_attribute(tag: str, name: str, value: str) -> str:
    """Return a start tag with another value of an attribute, which is added if it is missing."""
    written = quoteattr(value)
    changed, count = re.subn(rf"(\s{name}\s*=\s*)(?:\"[^\"]*\"|'[^']*')", rf"\g<1>{written}", tag)
    if count:
        return changed
    return re.sub(r"/?>\Z", rf" {name}={written}\g<0>", tag)
