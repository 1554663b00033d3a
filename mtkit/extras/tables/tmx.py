"""Read translation memories (`.tmx`, all versions) as tables whose columns are languages.

lxml reads a file line by line, and a unit is forgotten when it ends, so memory does not grow with
the file. What could make it grow is refused: entities, deep nesting, and units without an end. A
document type is accepted, but never loaded.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from mtkit.config.language_codes import standard_language
from mtkit.corpus.columns import Columns
from mtkit.corpus.files import existing_file, tell_once, unpacked_blocks
from mtkit.corpus.text import in_one_line
from mtkit.errors import UserError
from mtkit.extras.tables.tmx_codes import CodeWriter, local_name, read_segment
from mtkit.report import plural, say, warn

MAX_UNIT_CHARACTERS = 1 << 20
"""Largest unit; a larger one is no sentence, and is read as a blank pair."""
MAX_UNIT_BYTES = 1 << 22
"""Largest unit, or other part of a file, that the parser keeps until it ends."""
MAX_NAMES = 10_000
"""Largest number of different names of elements and attributes, which the parser keeps."""
MAX_LANGUAGES = 300
MAX_NAMED_LANGUAGES = 20
"""Number of languages that an error lists at most."""
UTF_8 = "utf-8-sig"
"""The encoding without a declaration; a byte order mark is left out."""
NO_CHARSETS = ("idna", "punycode", "raw-unicode-escape", "unicode-escape")
"""Encodings of Python that no XML file has; some need quadratic time."""

XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
"""The attribute xml:lang, as lxml names it."""

LanguagePair = tuple[str, str]

# Repeats are bounded, so that the search takes linear time.
_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s{0,9}=\s{0,9}["']([\w.:-]{1,40})["']""")
_FORBIDDEN = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]|&#(?:([0-9]{1,7})|x([0-9a-fA-F]{1,6}));"
)
"""Characters that XML forbids, and all references to characters by their numbers."""
_REFERENCE_AT_END = re.compile("&[^;&]{0,10}\\Z")
"""The start of a reference to a character, such as `&#1114111;`, that goes on in the next block."""


class Unit(NamedTuple):
    """A text in several languages."""

    line: int
    """The line of the file, from 1, in which the unit begins."""
    texts: dict[str, str]
    """The first text in each language, by the tag of the language, in the order of the file."""


@dataclass(frozen=True)
class Contents:
    """Which texts a memory holds."""

    units: int
    counts: dict[str, int]
    """Number of units with a text in a language, by its tag."""
    source_language: str | None
    """The language that the header names as that of the sources; None if it names none."""

    def describe(self) -> str:
        """Return the languages with their numbers of texts, for messages."""
        named = [f"{tag} ({count:,})" for tag, count in self.counts.items()]
        if len(named) > MAX_NAMED_LANGUAGES:
            named[MAX_NAMED_LANGUAGES:] = ["…"]
        return ", ".join(named)


def read_tmx(path: str, columns: Columns) -> Generator[tuple[str, int, str, str]]:
    """Yield file, line, source and target of each unit with a text in both languages.

    `columns`: languages, by any code or name; or 0 and 1 for those of `find_languages`. A language
    without a region or script stands for all its variants; of several variants in a unit the first
    is read. Say how many units lack a language, and how many formatting codes there are.

    Raises:
        UserError: the file is damaged or not TMX, or no unit has texts in both languages.
    """
    source, target = _choose_languages(path, columns)
    parser = _MemoryReader(path)
    unpaired = 0
    with closing(parser.units()) as units:
        for line, texts in units:
            source_tag = _find_variant(texts, source)
            other_tags = [tag for tag in texts if tag != source_tag]
            target_tag = _find_variant(other_tags, target)
            if source_tag is None or target_tag is None:
                unpaired += 1
                continue
            yield path, line, texts[source_tag], texts[target_tag]
    if unpaired == parser.unit_count:
        raise _explain_missing_pairs(path, (source, target), parser.contents())
    if unpaired:
        tell_once(
            say,
            f"{path}: leaving out {unpaired:,} of {plural(parser.unit_count, 'unit')}, which have "
            f"no text in {source} or in {target}",
        )
    codes = parser.codes
    if codes.count:
        tell_once(
            say,
            f"{path}: {plural(codes.count, 'formatting code')} in its texts: {codes.readable:,} "
            f"kept as placeholders or tags, {codes.numbered:,} as numbered tags such as <1>",
        )


def find_languages(path: str) -> LanguagePair:
    """Return the two languages of a memory, that of the sources first.

    If the texts have more than two tags, regions are ignored: a memory in en-US, en-GB and de has
    the languages en and de.

    Raises:
        UserError: the file is damaged or not TMX, or it has not exactly two languages.
    """
    contents = read_contents(path)
    tags = list(contents.counts)
    if len(tags) != 2:
        tags = list(dict.fromkeys(_without_region(tag) for tag in tags))
    if len(tags) == 2:
        first, second = tags
        source = contents.source_language
        # The header may name en-US where the texts have en.
        if source is not None and source != first and _is_variant(source, second):
            return second, first
        return first, second
    if len(contents.counts) < 2:
        raise _explain_missing_language(path, contents)
    raise UserError(
        f"{path}: choose two of its {len(contents.counts)} languages with --columns S T, or with "
        f"source_column and target_column: {contents.describe()}"
    )


def read_contents(path: str) -> Contents:
    """Read a whole memory, and return which texts it holds; errors are as in `read_tmx`."""
    status = existing_file(path).stat()
    return _read_contents(path, status.st_mtime_ns, status.st_size)


@cache  # a corpus is read several times
def _read_contents(path: str, modified: int, size: int) -> Contents:
    """Return the contents; `modified` and `size` tell versions of a file apart."""
    parser = _MemoryReader(path)
    for _ in parser.units():
        pass
    return parser.contents()


def _choose_languages(path: str, columns: Columns) -> LanguagePair:
    chosen: list[str] = []
    for column in columns:
        if isinstance(column, str):
            chosen.append(_standard(column))
        elif column in (0, 1):
            chosen.append(find_languages(path)[column])
        else:
            raise UserError(
                f"{path}: no column {column}; the columns of a translation memory are languages, "
                "such as en and de"
            )
    source, target = chosen
    if source == target:
        raise UserError(f"{path}: source and target are both {source}; choose two languages")
    return source, target


def _explain_missing_pairs(path: str, languages: LanguagePair, contents: Contents) -> UserError:
    """Return the error for a memory of which no unit has texts in both languages."""
    if len(contents.counts) < 2:
        return _explain_missing_language(path, contents)
    wanted = " and ".join(languages)
    return UserError(
        f"{path}: no unit has texts in {wanted}; choose from its languages: {contents.describe()}"
    )


def _explain_missing_language(path: str, contents: Contents) -> UserError:
    """Return the error for a memory with texts in one language, or in none."""
    if not contents.units:
        return UserError(f"{path} has no translation units; export it again")
    if not contents.counts:
        return UserError(f"{path}: its texts name no languages (xml:lang); export it again")
    return UserError(
        f"{path}: all its texts are in one language, {contents.describe()}; a corpus needs two"
    )


def _standard(language: str) -> str:
    """Return the tag of a language; of one without a standard code, its name in small letters."""
    try:
        return standard_language(language)
    except ValueError:
        return language.strip().lower().replace("_", "-")


def _without_region(tag: str) -> str:
    """Return the language and script of a tag, such as zh-Hant for zh-TW."""
    language = _parse(tag)
    if language is None:
        return tag
    likely = language.maximize()  # adds the script: Hant for zh-TW, but Hans for zh
    return _standard(f"{language.language}-{likely.script}" if likely.script else tag)


@cache
def _parse(tag: str) -> Any:
    """Return the `langcodes.Language` of a tag; None if no language has it."""
    from langcodes import Language

    try:
        return Language.get(standard_language(tag))
    except ValueError:
        return None


@cache
def _is_variant(tag: str, language: str) -> bool:
    """Return whether a tag is a language, or a variant of it.

    A language without a script or region stands for all scripts or regions. `langcodes` can measure
    distances, too, but by these pt-AO would be nearer to pt-PT than en is to en-GB.
    """
    variant = _parse(tag)
    wanted = _parse(language)
    if variant is None or wanted is None:
        return tag == language
    is_same_script = wanted.script in (None, variant.maximize().script)
    is_same_region = wanted.territory in (None, variant.territory)
    return bool(variant.language == wanted.language and is_same_script and is_same_region)


def _find_variant(tags: Iterable[str], language: str) -> str | None:
    """Return the tag that is exactly a language, else the first of its variants."""
    variants = [tag for tag in tags if _is_variant(tag, language)]
    if language in variants:
        return language
    return variants[0] if variants else None


def _read_lines(path: str) -> Generator[bytes]:
    """Yield the lines of a file as UTF-8, with U+FFFD for each character that XML forbids.

    Some programs write such characters, although other XML parsers refuse the file.
    """
    replaced = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal replaced
        decimal, hexadecimal = match.groups()
        if decimal or hexadecimal:
            code = int(decimal) if decimal else int(hexadecimal, base=16)
            if code <= sys.maxunicode and not _FORBIDDEN.fullmatch(chr(code)):
                return match[0]
        replaced += 1
        return "\ufffd"

    with closing(_decode(path)) as texts:
        for text in texts:
            # A block may end within a line. The parser does not mind.
            yield from io.BytesIO(_FORBIDDEN.sub(replace, text).encode())
    if replaced:
        characters = plural(replaced, "invalid character")
        tell_once(warn, f"{path}: replaced {characters} (not in its encoding, or forbidden by XML)")


def _decode(path: str) -> Generator[str]:
    """Yield the text of a file, decoded as its byte order mark or its declaration says.

    Bytes that are not text become surrogates, which XML forbids. No text ends within a reference.
    """
    unended = ""
    with existing_file(path).open("rb") as file, closing(unpacked_blocks(file, path)) as blocks:
        start = next(blocks, b"")
        encoding = _declared_encoding(path, start)
        decoder = codecs.getincrementaldecoder(encoding)(errors="surrogateescape")
        for block in chain([start], blocks, [b""]):
            try:
                text = unended + decoder.decode(block, final=not block)
            except ValueError as error:
                raise UserError(f"{path} is not text in {encoding} ({error})") from None
            match = _REFERENCE_AT_END.search(text)
            unended = match[0] if match else ""
            yield text.removesuffix(unended)
    yield unended


def _declared_encoding(path: str, start: bytes) -> str:
    """Return the encoding that the XML declaration at the start of a file names, or UTF-8.

    Raises:
        UserError: the encoding is unknown.
    """
    declaration = _ENCODING.match(start.removeprefix(codecs.BOM_UTF8))
    if declaration is None:
        return UTF_8
    name = declaration[1].decode()
    try:
        encoding = codecs.lookup(name).name
        "<tmx".encode(encoding)  # raises for codecs that cannot encode text, such as hex
        is_charset = encoding not in NO_CHARSETS
    except (LookupError, ValueError):
        is_charset = False
    if not is_charset:
        raise UserError(f"{path}:1: unknown encoding {name!r}; save it in UTF-8")
    # A declaration that can be read as ASCII is not in UTF-16, even if it says so: the text is in
    # UTF-8, or `unpacked_blocks` has converted it to UTF-8.
    is_unicode = encoding.startswith(("utf-8", "utf-16", "utf-32"))
    return UTF_8 if is_unicode else encoding


class _Lines:
    """The lines of a file, as lxml reads them."""

    def __init__(self, path: str, lines: Iterator[bytes]) -> None:
        self.number = 1
        """Number of the line that was read last."""
        self.kept_bytes = 0
        """Number of bytes since the parser had forgotten all that was complete."""
        self._path = path
        self._lines = lines
        self._has_ended = False

    def read(self, size: int) -> bytes:
        """Return the next line, or a part of it; b"" at the end of the file.

        Raises:
            UserError: the parser has to keep too much.
        """
        line = next(self._lines, b"")
        self.number += self._has_ended
        self._has_ended = line.endswith(b"\n")
        self.kept_bytes += len(line)
        if self.kept_bytes > MAX_UNIT_BYTES:
            raise self.error("over 4 MiB without the end of a unit")
        return line

    def error(self, problem: str) -> UserError:
        """Return the error for a problem in the line that was read last."""
        where = f"{self._path}:{self.number}"
        return UserError(f"{where}: {problem}; mtkit does not read such a file, export it again")


@dataclass
class _MemoryReader:
    """Reads the units of a memory, and counts them."""

    path: str
    codes: CodeWriter = field(default_factory=CodeWriter, init=False)
    unit_count: int = field(default=0, init=False)
    _counts: Counter[str] = field(default_factory=Counter, init=False)
    _source_language: str | None = field(default=None, init=False)
    _tags: dict[str, str] = field(default_factory=dict, init=False)
    """Standard tags, by the languages as the file writes them."""

    def contents(self) -> Contents:
        """Return which texts were read so far."""
        return Contents(self.unit_count, dict(self._counts), self._source_language)

    def units(self) -> Generator[Unit]:
        """Yield the units.

        Raises:
            UserError: the file is not TMX.
        """
        from lxml.etree import XMLSyntaxError, iterparse

        with closing(_read_lines(self.path)) as text:
            lines = _Lines(self.path, text)
            events = iterparse(
                lines,
                events=("start", "end"),
                encoding="utf-8",
                load_dtd=False,
                no_network=True,
                resolve_entities="internal",  # of these a file has none, see `_check_root`
                remove_comments=True,
                remove_pis=True,
            )
            try:
                yield from self._read_units(events, lines)
            except XMLSyntaxError as error:
                raise _describe(self.path, error, events.error_log) from None

    def _read_units(self, events: Iterable[tuple[str, Any]], lines: _Lines) -> Generator[Unit]:
        unit: Any = None
        segment: Any = None
        first_line = 0
        texts: dict[str, str] = {}
        names: set[str] = set()
        for event, element in events:
            is_start = event == "start"
            name = local_name(element.tag)
            if is_start:
                if not names:
                    _check_root(element, lines)
                names.update((element.tag, *element.keys()))
                if len(names) > MAX_NAMES:
                    raise lines.error(f"over {MAX_NAMES:,} different names")
            if segment is not None and element is not segment:
                continue  # a code, which the end of the segment reads
            if is_start and name == "seg":
                segment = element
            elif is_start and name == "tu":
                unit = element
                first_line = lines.number
                texts = {}
                self.codes.start_unit()
            elif is_start and name == "header":
                self._read_header(element, lines)
            if is_start:
                continue
            if element is segment:
                self._read_text(element, texts, lines)
                segment = None
            elif element is unit:
                yield self._finish(first_line, texts)
                unit = None
            if unit is None:
                lines.kept_bytes = 0
            _forget(element)

    def _read_header(self, header: Any, lines: _Lines) -> None:
        language = header.get("srclang")
        if language and language != "*all*":
            self._source_language = self._tag_of(language, lines)

    def _read_text(self, segment: Any, texts: dict[str, str], lines: _Lines) -> None:
        """Add the text of a segment, by its language; of several in one language, the first."""
        variant = segment.getparent()
        language = self._tag_of(variant.get(XML_LANGUAGE) or variant.get("lang"), lines)
        if language is None or language in texts:
            return
        texts[language] = in_one_line(self.codes.write(list(read_segment(segment))))

    def _finish(self, line: int, texts: dict[str, str]) -> Unit:
        """Count a unit, and return it."""
        if sum(map(len, texts.values())) > MAX_UNIT_CHARACTERS:
            texts = dict.fromkeys(texts, "")
            tell_once(
                warn,
                f"{self.path}:{line}: a unit of over {MAX_UNIT_CHARACTERS:,} characters, "
                "which is read as blank",
            )
        self.unit_count += 1
        self._counts.update(texts.keys())
        return Unit(line, texts)

    def _tag_of(self, language: str | None, lines: _Lines) -> str | None:
        if not language:
            return None
        if language not in self._tags:
            if len(self._tags) >= MAX_LANGUAGES:
                raise lines.error(f"over {MAX_LANGUAGES:,} languages")
            self._tags[language] = _standard(language)
        return self._tags[language]


def _check_root(root: Any, lines: _Lines) -> None:
    """Raise UserError if the root is not that of TMX, or the document type defines entities."""
    name = local_name(root.tag)
    if name != "tmx":
        raise lines.error(f"not a translation memory: its root is <{name[:40]}>, not <tmx>")
    document_type = root.getroottree().docinfo.internalDTD
    for entity in () if document_type is None else document_type.iterentities():
        raise lines.error(f"the document type defines the entity {entity.name[:40]!r}")


def _forget(element: Any) -> None:
    """Remove the content of an element that has ended, and the elements before it.

    The element itself must stay, because the parser still needs it.
    """
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]


def _describe(path: str, error: Any, log: Any) -> UserError:
    """Return the error for a file that is not XML; `log`: what the parser has found wrong."""
    line = error.lineno or 1
    reason = error.msg
    if log:  # the first entry is the cause of all others
        line = log[0].line
        reason = log[0].message
    return UserError(f"{path}:{line}: not XML ({reason}); export it again as TMX")
