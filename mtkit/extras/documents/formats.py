"""The formats of documents: how the names of their files end, and what reads their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import PurePath
from typing import NamedTuple

from mtkit.extras.documents.units import TextUnit

Read = Callable[[str], Iterable[TextUnit]]
"""Returns the units of a document; raises DocumentError if it is damaged."""

DECLARED = ("declared",)
"""Encodings of files whose start names their encoding."""
ENTITIES = "xmlcharrefreplace"
"""How XML and HTML write a character that the encoding of the file lacks."""


class DocumentFormat(NamedTuple):
    """A format of documents."""

    name: str
    suffixes: tuple[str, ...]
    """How the names of files end."""
    reader: str
    """The module and the function that reads a text."""
    encodings: tuple[str, ...] = ("utf-8",)
    """The encodings that are tried in this order."""
    errors: str = "strict"
    """How a character is written that the encoding of the file lacks: as in `str.encode`."""
    max_mebibytes: int = 16
    """Largest file, unpacked; that of a format whose reader takes much memory is smaller."""
    members: str = ""
    """A pattern for the names of the members that have texts, if the file is a zip archive."""

    @property
    def read(self) -> Read:
        """What reads a text; its module is imported here, because it may need a package."""
        module, _, function = self.reader.partition(":")
        read: Read = getattr(import_module(f"mtkit.extras.documents.{module}"), function)
        return read


_WORD = r"word/(document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml"
FORMATS = (
    DocumentFormat(
        name="a file of gettext",
        suffixes=(".po", ".pot"),
        reader="gettext_files:read_po",
        encodings=DECLARED,
    ),
    DocumentFormat(
        name="XLIFF",
        suffixes=(".xlf", ".xliff"),
        reader="xliff:read_xliff",
        encodings=DECLARED,
        errors=ENTITIES,
    ),
    DocumentFormat(
        name="a resource of Android",
        suffixes=(".xml",),
        reader="android:read_android",
        encodings=DECLARED,
        errors=ENTITIES,
    ),
    DocumentFormat(
        name="a file of subtitles",
        suffixes=(".srt", ".vtt"),
        reader="subtitles:read_subtitles",
    ),
    DocumentFormat(
        name="JSON",
        suffixes=(".json", ".arb"),
        reader="json_files:read_json_texts",
    ),
    DocumentFormat(
        name="a file of properties",
        suffixes=(".properties",),
        reader="key_value_files:read_properties",
        encodings=("utf-8", "latin-1"),
        errors="backslashreplace",
    ),
    DocumentFormat(
        name="a file of settings",
        suffixes=(".ini",),
        reader="key_value_files:read_ini",
    ),
    DocumentFormat(
        name="Fluent",
        suffixes=(".ftl",),
        reader="fluent_files:read_fluent",
        max_mebibytes=2,
    ),
    DocumentFormat(
        name="HTML",
        suffixes=(".html", ".htm"),
        reader="html_files:read_html",
        encodings=DECLARED,
        errors=ENTITIES,
    ),
    DocumentFormat(
        name="Markdown",
        suffixes=(".md", ".markdown"),
        reader="markdown_files:read_markdown",
        max_mebibytes=2,
    ),
    DocumentFormat(
        name="a document of Word",
        suffixes=(".docx",),
        reader="word_files:read_word",
        max_mebibytes=64,
        members=_WORD,
    ),
)


def find_format(path: str) -> DocumentFormat | None:
    """Return the format of files with such a name; None if there is none."""
    suffix = PurePath(path.lower()).suffix
    for form in FORMATS:
        if suffix in form.suffixes:
            return form
    return None


def name_documents() -> str:
    """Return how the names of documents end, for messages."""
    *others, last = (suffix for form in FORMATS for suffix in form.suffixes)
    return f"{', '.join(others)} or {last}"
