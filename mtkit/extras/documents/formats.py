"""The formats of documents, and the texts of a document in its encoding, perhaps in an archive."""

from __future__ import annotations

import codecs
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from mtkit.corpus.files import existing_file
from mtkit.errors import UserError
from mtkit.extras.documents.units import DocumentError, TextUnit

MAX_UNITS = 200_000
"""Most texts of a document; all of them are in memory."""
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Encodings, by the byte order mark at the start of a document."""
DECLARATION_BYTES = 4096
"""Bytes at the start of a document in which it may declare its encoding."""
_DECLARED = re.compile(
    rb"(?:<\?xml\s[^<>]*?encoding|<meta\s[^<>]*?charset"
    rb"|Content-Type:[^<>]{0,60}?charset(?!=CHARSET|=ASCII|=US-ASCII))"
    rb"\s*=\s*[\"']?([A-Za-z0-9_.:-]+)",
    re.IGNORECASE,
)
"""An encoding that XML, HTML or gettext declares; a template that leaves it open is in UTF-8."""
_DAMAGED = (BadZipFile, RuntimeError, EOFError, zlib.error)
"""What zipfile raises; RuntimeError: the archive is encrypted, or packed in an unknown way."""


class DocumentFormat(NamedTuple):
    """A format of documents."""

    suffixes: tuple[str, ...]
    """How the names of files end."""
    reader: str
    """The module and the function that yields the units of a text."""
    encodings: tuple[str, ...] = ("utf-8",)
    """The encodings that are tried in this order; none if files declare their encoding."""
    errors: str = "strict"
    """How a character is written that the encoding of the file lacks: as in `str.encode`."""
    max_mebibytes: int = 16
    """Largest file, unpacked; that of a format whose reader takes much memory is smaller."""
    members: str = ""
    """A pattern for the names of the members that have texts, if the file is a zip archive."""


_WORD = r"word/(document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml"
FORMATS = (
    DocumentFormat((".po", ".pot"), "gettext_files:read_po", encodings=()),
    DocumentFormat(
        suffixes=(".xlf", ".xliff"),
        reader="xliff:read_xliff",
        encodings=(),
        errors="xmlcharrefreplace",
    ),
    DocumentFormat((".xml",), "android:read_android", encodings=()),
    DocumentFormat((".srt", ".vtt"), "subtitles:read_subtitles"),
    DocumentFormat((".json", ".arb"), "json_files:read_json_texts"),
    DocumentFormat(
        suffixes=(".properties",),
        reader="properties_files:read_properties",
        encodings=("utf-8", "latin-1"),
        errors="backslashreplace",
    ),
    DocumentFormat((".ftl",), "fluent_files:read_fluent", max_mebibytes=2),
    DocumentFormat(
        suffixes=(".html", ".htm"),
        reader="html_files:read_html",
        encodings=(),
        errors="xmlcharrefreplace",
    ),
    DocumentFormat((".md", ".markdown"), "markdown_files:read_markdown", max_mebibytes=2),
    DocumentFormat(
        suffixes=(".docx",),
        reader="word_files:read_word",
        max_mebibytes=64,
        members=_WORD,
    ),
)


def find_format(path: str) -> DocumentFormat | None:
    """Return the format of files with such a name; None if there is none."""
    for form in FORMATS:
        if path.lower().endswith(form.suffixes):
            return form
    return None


@dataclass
class DocumentPart:
    """A text of a document, and its units: the whole file, or a member of an archive."""

    text: str
    encoding: str
    mark: bytes
    """The byte order mark."""
    units: Sequence[TextUnit] = ()

    def encode(self, text: str, errors: str) -> bytes:
        """Return another text as bytes like those of this one."""
        return self.mark + text.encode(self.encoding, errors)


def read_parts(path: str, form: DocumentFormat) -> dict[str, DocumentPart]:
    """Return the texts of a document with their units, by the names of members.

    Raises:
        UserError: the file cannot be read, is too large or damaged, or is not in its encoding.
    """
    module, _, function = form.reader.partition(":")
    # Imported here, because the module may need a package.
    read = getattr(import_module(f"mtkit.extras.documents.{module}"), function)
    parts: dict[str, DocumentPart] = {}
    for name, content in _read_members(path, form):
        part = _decode(path, content, form)
        parts[name] = part
        try:
            part.units = list(islice(read(part.text), MAX_UNITS + 1))
        except ImportError as error:
            problem = f"needs the package {error.name}: pip install 'mtkit[documents]'"
            raise UserError(f"{path}: {problem}") from None
        except DocumentError as error:
            lines_before = part.text.count("\n", 0, error.position)
            raise UserError(f"{path}:{lines_before + 1}: {error.problem}") from None
        if len(part.units) > MAX_UNITS:
            raise UserError(f"{path}: has over {MAX_UNITS:,} texts; divide it")
    if not parts:
        raise UserError(f"{path}: is no document of Word; save it again in Word")
    return parts


def _read_members(path: str, form: DocumentFormat) -> Iterator[tuple[str, bytes]]:
    """Yield the texts of an archive; of another file, its content."""
    file = existing_file(path)
    size = file.stat().st_size
    if not form.members:
        _check_size(path, size, form)
        yield "", file.read_bytes()
        return
    with _open_archive(path) as archive:
        members = archive.infolist()
        sizes = [member.file_size for member in members]
        _check_size(path, sum(sizes), form)
        if any(member.compress_type > ZIP_DEFLATED for member in members):
            raise BadZipFile("packed in a way that Word does not know")
        for member in members:
            if re.fullmatch(form.members, member.filename):
                yield member.filename, archive.read(member)


@contextmanager
def _open_archive(path: str) -> Iterator[ZipFile]:
    """Open an archive, and re-raise what zipfile raises as UserErrors."""
    try:
        with ZipFile(path) as archive:
            yield archive
    except _DAMAGED as error:
        raise UserError(f"{path}: is damaged or encrypted ({error})") from None


def _check_size(path: str, size: int, form: DocumentFormat) -> None:
    if size > form.max_mebibytes << 20:
        raise UserError(f"{path}: has over {form.max_mebibytes} MiB; divide it")


def _decode(path: str, content: bytes, form: DocumentFormat) -> DocumentPart:
    encodings = form.encodings
    if not encodings:
        declared = _DECLARED.search(content, 0, DECLARATION_BYTES)
        encodings = (declared[1].decode() if declared else "utf-8",)
    mark = b""
    for known_mark, its_encoding in BYTE_ORDER_MARKS.items():
        if content.startswith(known_mark):
            mark = known_mark
            encodings = (its_encoding,)
    for encoding in encodings:
        with suppress(UnicodeError, LookupError):
            text = content[len(mark) :].decode(encoding)
            part = DocumentPart(text, encoding, mark)
            # Some encodings have several ways to write a text; what stays must keep its own.
            if part.encode(text, "strict") == content:
                return part
    tried = " or ".join(encodings)
    raise UserError(f"{path}: is not in {tried}; convert it: iconv -f ENCODING -t UTF-8")


def write_parts(path: str, form: DocumentFormat, contents: Mapping[str, bytes]) -> bytes:
    """Return a document with other texts; the other members of an archive stay."""
    if not form.members:
        return contents[""]
    written = io.BytesIO()
    with _open_archive(path) as archive, ZipFile(written, "w") as copy:
        copy.comment = archive.comment
        for member in archive.infolist():
            content = contents.get(member.filename)
            if content is None:
                content = archive.read(member)
            copy.writestr(member, content)
    return written.getvalue()
