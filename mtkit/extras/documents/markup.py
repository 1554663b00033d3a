"""Where the elements of XML stand in its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from mtkit.extras.documents.units import DocumentError

MAX_DEPTH = 200
"""Most elements within each other."""
_MARKUP = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>"
    r"|<(?P<end>/?)(?P<name>[^\s/>!]+)(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>",
    re.DOTALL,
)
"""A comment, a section, an instruction or a tag of XML that is well-formed."""
_ATTRIBUTE = re.compile(r"\s([^\s=>\"']+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


@dataclass(slots=True)
class Element:
    """An element of a document, and where it stands."""

    document: str
    name: str
    """The name as it is written, which may have a prefix; empty for a comment or a section."""
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

    def inherited(self, attribute: str) -> str | None:
        """Return an attribute of the nearest element that has it: this one or one around it."""
        own = self.attributes.get(attribute)
        if own is not None or self.parent is None:
            return own
        return self.parent.inherited(attribute)


def read_elements(document: str, *names: str) -> Iterator[Element]:
    """Yield the elements of XML that have one of the names, inner ones first.

    Raises:
        DocumentError: the document is not well-formed, declares entities, or is nested too deeply.
    """
    _check_xml(document)
    open_elements = [Element(document, "", 0, 0, None)]
    for token in _MARKUP.finditer(document):
        if token["end"]:
            element = open_elements.pop()
        else:
            parent = open_elements[-1]
            element = Element(document, token["name"] or "", *token.span(), parent)
            parent.children.append(element)
            if element.name and not token[0].endswith("/>"):
                if len(open_elements) > MAX_DEPTH:
                    problem = f"over {MAX_DEPTH} elements within each other"
                    raise DocumentError(element.start, problem)
                open_elements.append(element)
                continue
        element.inner_end = max(token.start(), element.inner_start)
        element.end = token.end()
        if element.local_name in names:
            yield element


def _check_xml(document: str) -> None:
    entity = document.find("<!ENTITY")
    if entity >= 0:
        raise DocumentError(entity, "declares entities; remove <!DOCTYPE …>")
    parser = expat.ParserCreate("utf-8")
    content = document.encode()
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        before = content[: parser.ErrorByteIndex].decode(errors="ignore")
        reason = expat.ErrorString(error.code)
        raise DocumentError(len(before), f"not well-formed XML: {reason}") from None


def with_attribute(tag: str, name: str, value: str) -> str:
    """Return a start tag with another value of an attribute, which is added if it is missing."""
    written = quoteattr(value)
    changed, count = re.subn(rf"(\s{name}\s*=\s*)(?:\"[^\"]*\"|'[^']*')", rf"\g<1>{written}", tag)
    if count:
        return changed
    return re.sub(r"/?>\Z", rf" {name}={written}\g<0>", tag)
