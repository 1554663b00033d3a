"""String resources of Android (`strings.xml`): strings, arrays and plurals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from xml.sax.saxutils import escape

from mtkit.extras.documents.codes import Content, InlineCode, NumberedText, read_content
from mtkit.extras.documents.markup import Element, read_elements, with_attribute
from mtkit.extras.documents.plurals import quantities_of
from mtkit.extras.documents.units import DocumentError, Replacement, Target, TextUnit, unit_at

_PAIRS = re.compile("a|annotation|b|big|em|font|i|li|small|span|strike|strong|sub|sup|tt|u|ul")
"""Codes around text that is translated; `<xliff:g>` is none."""
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CHARACTERS = {"n": "\n", "t": "\t"}
_SPACES = " \t\r\n"
"""What Android makes one space, or none at both ends of a string."""
_QUOTED = re.compile(r"\".*\"", re.DOTALL)
"""A string in which Android keeps all spaces."""
_SPECIAL = re.compile(r"[\\'\"]|\A[@?]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_OTHER_ENCODING = re.compile(r"<\?xml\s[^<>]*encoding\s*=\s*[\"'](?!utf)", re.IGNORECASE)
"""The start of a document whose encoding may lack characters."""
_CDATA = re.compile(r"\s*<!\[CDATA\[((?:(?!\]\]>).)*)\]\]>\s*", re.DOTALL)


def read_android(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each string, for each item of an array, and for each plural.

    Raises:
        DocumentError: the document has no `<resources>`.
    """
    if "<resources" not in document:
        problem = "XML of an unknown kind; mtkit knows XLIFF (.xlf) and Android (<resources>)"
        raise DocumentError(0, problem)
    for element in read_elements(document, "string", "string-array", "plurals"):
        if element.attributes.get("translatable") == "false":
            continue
        items = [element] if element.name == "string" else element.children
        resources = [ResourceText(item) for item in items]
        texts = [resource.text for resource in resources]
        if element.name == "plurals":
            has_references = any(map(_is_reference, texts))
            if items and not has_references:
                write = partial(_write_plural, element, resources)
                yield TextUnit(texts, write)
            continue
        for resource in resources:
            if not _is_reference(resource.text):
                yield unit_at(resource.text, resource.start, resource.end, resource.write)


def _is_reference(text: str) -> bool:
    """Return whether a text names another resource, such as `@string/name`."""
    return text.startswith(("@", "?"))


class ResourceText:
    """The text of a string or an item."""

    def __init__(self, element: Element) -> None:
        document = element.document
        self._document = document
        self.start = element.inner_start
        self.end = element.inner_end
        content: Content = read_content(element, _PAIRS)
        section = _CDATA.fullmatch(document, self.start, self.end)
        self._is_section = section is not None
        if section is not None:
            # Only what the section holds is replaced; within it, nothing is an entity or a tag.
            self.start, self.end = section.span(1)
            content = [section[1]]
        raw = document[self.start : self.end]
        stripped = raw.strip(_SPACES)
        self.start += raw.index(stripped)
        self.end = self.start + len(stripped)
        is_quoted = _QUOTED.fullmatch(stripped) is not None
        # The model need not read the quotes.
        self._quote = '"' if is_quoted else ""
        self._coded = NumberedText(_read_plain(content, is_quoted))
        self.text = self._coded.text

    def write(self, translation: str) -> str:
        """Return a translation as it stands in the document."""
        written = self._coded.restore(translation, self._escape)
        if not self._quote:
            written = re.sub(r"\A | \Z", r"\\u0020", written)
        return f"{self._quote}{written}{self._quote}"

    def _escape(self, text: str) -> str:
        escaped = _SPECIAL.sub(r"\\\g<0>", text)
        escaped = escaped.replace("\n", r"\n")
        escaped = escaped.replace("\t", r"\t")
        if self._is_section:
            # The end of a section cannot be escaped; it is divided between two sections.
            divided = escaped.replace("]]>", "]]]]><![CDATA[>")
            if _OTHER_ENCODING.match(self._document):
                # Characters that become entities must stand outside of sections.
                divided = _NOT_ASCII.sub(r"]]>\g<0><![CDATA[", divided)
            return divided
        return escape(escaped)


def _read_plain(content: Content, is_quoted: bool) -> Iterator[str | InlineCode]:
    """Yield the texts without escapes, and with only the spaces that Android keeps."""
    parts = list(content)
    last = len(parts) - 1
    for place, part in enumerate(parts):
        if isinstance(part, InlineCode):
            yield part
            continue
        text = re.sub(r"(?<!\\)\"", "", part)
        if not is_quoted:
            text = re.sub(rf"[{_SPACES}]+", " ", text)
            # A space that begins or ends a string is an escaped one.
            if place == 0:
                text = text.removeprefix(" ")
            if place == last:
                text = text.removesuffix(" ")
        yield _ESCAPE.sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    code, character = match.groups()
    if code:
        return chr(int(code, 16))
    return _CHARACTERS.get(character, character)


def _write_plural(
    plural: Element,
    resources: Sequence[ResourceText],
    translations: Sequence[str],
    target: Target,
) -> Iterator[Replacement]:
    """Yield what writes each item, and adds the forms of the target language that are missing.

    A missing form is a copy of the item "other", or of the last item if there is none. Forms that
    the language does not have stay: Android ignores them.
    """
    document = plural.document
    items = plural.children
    copies: dict[str, tuple[str, str]] = {}
    """The start tag of each item, and what follows it, by its quantity."""
    for item, resource, translation in zip(items, resources, translations, strict=True):
        text = resource.write(translation)
        yield Replacement(resource.start, resource.end, text)
        begin = document[item.inner_start : resource.start]
        end = document[resource.end : item.end]
        quantity = item.attributes.get("quantity", "")
        copies[quantity] = (item.tag, f"{begin}{text}{end}")
    tag, content = copies.get("other", copies[quantity])
    before = document[plural.inner_start : items[0].start]
    indent = before[len(before.rstrip()) :]
    for missing in quantities_of(target.language):
        if missing not in copies:
            added = with_attribute(tag, "quantity", missing)
            yield Replacement(item.end, item.end, f"{indent}{added}{content}")
