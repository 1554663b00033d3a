"""Read translation memories (`.tmx`, all versions) as tables whose columns are languages.

The parser is expat with handlers that refuse what makes XML dangerous: entities, default
attributes, endless tags and deep nesting. A document type is accepted, but never loaded. Units are
yielded while the file is read, so memory does not grow with it.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import PurePath
from typing import NamedTuple
from xml.parsers import expat

from mtkit.config.language_codes import standard_language
from mtkit.corpus.columns import Columns
from mtkit.corpus.files import existing_file, tell_once, unpacked_blocks
from mtkit.corpus.text import in_one_line
from mtkit.errors import UserError
from mtkit.report import plural, say, warn

CODES = ("bpt", "ept", "it", "ph", "sub", "ut")
"""Elements of a segment that hold formatting codes; the text of any other, such as hi, is text."""
MAX_UNIT_CHARACTERS = 1 << 20
"""Largest unit; a larger one is no sentence, and is read as a blank pair."""
MAX_TOKEN_BYTES = 1 << 20
"""Largest tag or comment, which the parser keeps in memory until it ends."""
MAX_DEPTH = 100
"""Deepest nesting of elements; TMX needs fewer than ten levels, except for codes in codes."""
MAX_NAMES = 10_000
"""Largest number of different names of elements and attributes, which the parser keeps."""
MAX_LANGUAGES = 300
MAX_NAMED_LANGUAGES = 20
"""Number of languages that an error lists at most."""
UTF_8 = "utf-8-sig"
"""The encoding without a declaration; a byte order mark is left out."""
REPLACEMENT = "\ufffd"
REPLACEMENT_BYTES = REPLACEMENT.encode()
"""The character that stands for what cannot be read; a file may have it, too."""
END_OF_FILE = b""
"""What follows the last block; all other blocks have at least one byte."""
MAX_REFERENCE_CHARACTERS = 12
"""Longest reference to a character, such as `&#1114111;`."""
MAX_CODE_CHARACTERS = 10
"""Number of characters that suffice to recognise a code for a line break."""
NO_CHARSETS = ("idna", "punycode", "raw-unicode-escape", "unicode-escape")
"""Encodings of Python that no XML file has; some need quadratic time."""
TRUNCATED = (
    expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN],
)
"""Errors of the parser at the end of a file that was cut."""

LanguagePair = tuple[str, str]

# Repeats are bounded, so that the search takes linear time.
_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s{0,9}=\s{0,9}["']([\w.:-]{1,40})["']""")
_FORBIDDEN = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]|&#(?:([0-9]{1,7})|x([0-9a-fA-F]{1,6}));"
)
"""Characters that XML forbids, and all references to characters by their numbers."""
_LINE_BREAK_CODE = re.compile(r"\s*(</?(br|p|w:br)\b|\\n|$)", re.IGNORECASE)
"""The start of a code between two lines, such as `<br/>`, `\\n`, or a line break itself."""


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
        shown = named[:MAX_NAMED_LANGUAGES]
        return ", ".join(shown) + (", …" if len(named) > len(shown) else "")


def is_tmx(path: str) -> bool:
    """Return whether the name of a file, plain or .gz, is that of a translation memory."""
    return PurePath(path.lower().removesuffix(".gz")).suffix == ".tmx"


def read_tmx(path: str, columns: Columns) -> Generator[tuple[str, int, str, str]]:
    """Yield file, line, source and target of each unit with a text in both languages.

    `columns`: languages, by any code or name; or 0 and 1 for those of `find_languages`. A language
    without a region or script stands for all its variants; of several variants in a unit the first
    is read. Say how many units lack a language, and how many codes were dropped.

    Raises:
        UserError: the file is damaged or not TMX, or no unit has texts in both languages.
    """
    source, target = _choose_languages(path, columns)
    source_matcher, target_matcher = _Matcher(source), _Matcher(target)
    parser = _UnitParser(path)
    unpaired = 0
    with closing(_read_units(path, parser)) as units:
        for line, texts in units:
            source_tag = source_matcher.find(texts)
            other_tags = [tag for tag in texts if tag != source_tag]
            target_tag = target_matcher.find(other_tags)
            if source_tag is None or target_tag is None:
                unpaired += 1
                continue
            yield path, line, texts[source_tag], texts[target_tag]
    if unpaired == parser.units:
        raise _explain_missing_pairs(path, (source, target), parser.contents())
    if unpaired:
        tell_once(
            say,
            f"{path}: leaving out {unpaired:,} of {plural(parser.units, 'unit')}, which have no "
            f"text in {source} or in {target}",
        )
    if parser.dropped_codes:
        codes = plural(parser.dropped_codes, "formatting code")
        tell_once(say, f"{path}: dropping {codes} in its texts (bpt, ept, it, ph, sub, ut)")


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
        if source is not None and source != first and _Matcher(second).matches(source):
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
    parser = _UnitParser(path)
    for _ in _read_units(path, parser):
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
    return _standard("-".join(part for part in _subtags(tag)[:2] if part))


@cache
def _subtags(tag: str) -> tuple[str, str, str]:
    """Return language, script and region; a script only if it is not the usual one."""
    from langcodes import Language

    try:
        language = Language.get(standard_language(tag))
    except ValueError:
        return tag, "", ""
    code = language.language or tag
    region = language.territory or ""
    # `maximize` adds the likely script: Hant for zh-TW, but Hans for zh alone.
    script = language.maximize().script or ""
    usual_script = Language.get(language.language or "und").maximize().script
    if script == usual_script:
        script = ""
    return code, script, region


class _Matcher:
    """Finds the texts that are in a language."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._known: dict[str, bool] = {}

    def find(self, tags: dict[str, str] | list[str]) -> str | None:
        """Return the tag that is exactly this language, else the first of its variants."""
        if self.tag in tags:
            return self.tag
        for tag in tags:
            if self.matches(tag):
                return tag
        return None

    def matches(self, tag: str) -> bool:
        """Return whether a tag is this language, or a variant of it."""
        if tag not in self._known:
            language, script, region = _subtags(self.tag)
            other_language, other_script, other_region = _subtags(tag)
            is_same_language = language == other_language
            # Without a script or region, `self.tag` stands for all scripts or regions.
            is_same_script = script in ("", other_script)
            is_same_region = region in ("", other_region)
            self._known[tag] = is_same_language and is_same_script and is_same_region
        return self._known[tag]


def _read_units(path: str, parser: _UnitParser) -> Generator[Unit]:
    with closing(_read_text(path)) as blocks:
        for block in blocks:
            yield from parser.parse(block)
    yield from parser.parse(b"", is_end=True)


def _read_text(path: str) -> Generator[bytes]:
    """Yield the text of a file as UTF-8, with U+FFFD for each character that XML forbids."""
    forbidden = _ForbiddenCharacters()
    with closing(_decode(path)) as texts:
        for text in texts:
            yield forbidden.replace(text)
    yield forbidden.rest()
    if forbidden.count:
        characters = plural(forbidden.count, "character")
        tell_once(warn, f"{path}: {characters} that XML forbids, such as controls, replaced")


def _decode(path: str) -> Generator[str]:
    """Yield the text of a file, decoded as its byte order mark or its declaration says."""
    # A file may contain U+FFFD itself. Only if the text has more of them than the file, the decoder
    # has replaced something.
    replacements_in_file = 0
    replacements_in_text = 0
    last_bytes = b""  # of the block before: a U+FFFD may begin in one block and end in the next
    with existing_file(path).open("rb") as file, closing(unpacked_blocks(file, path)) as blocks:
        start = next(blocks, b"")
        encoding = _declared_encoding(path, start)
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        for block in chain([start], blocks, [END_OF_FILE]):
            try:
                text = decoder.decode(block, final=block == END_OF_FILE)
            except ValueError as error:
                raise UserError(f"{path} is not text in {encoding} ({error})") from None
            with_last_bytes = last_bytes + block
            replacements_in_file += with_last_bytes.count(REPLACEMENT_BYTES)
            # One byte less than a whole U+FFFD, so that none is counted twice.
            last_bytes = with_last_bytes[-(len(REPLACEMENT_BYTES) - 1) :]
            replacements_in_text += text.count(REPLACEMENT)
            yield text
    if encoding == UTF_8 and replacements_in_text > replacements_in_file:
        tell_once(warn, f"{path}: invalid UTF-8 replaced")


class _ForbiddenCharacters:
    """Replaces the characters that XML forbids, and references to them such as `&#x1F;`.

    Some programs write them, although other XML parsers refuse such a file.
    """

    def __init__(self) -> None:
        self.count = 0
        self._unended = ""
        """The start of a reference at the end of a block."""

    def replace(self, text: str) -> bytes:
        """Return the text as UTF-8, with U+FFFD for each forbidden character.

        A reference that the text cuts off is kept for the next call.
        """
        text = self._unended + text
        end = len(text)
        reference = text.rfind("&", -MAX_REFERENCE_CHARACTERS)
        if reference >= 0 and ";" not in text[reference:]:
            end = reference
        self._unended = text[end:]
        return self._encode(text[:end])

    def rest(self) -> bytes:
        """Return what is left at the end of the file."""
        return self._encode(self._unended)

    def _encode(self, text: str) -> bytes:
        # Surrogates, which UTF-8 cannot encode, are among the forbidden characters.
        return _FORBIDDEN.sub(self._replace, text).encode()

    def _replace(self, match: re.Match[str]) -> str:
        decimal, hexadecimal = match.groups()
        if decimal or hexadecimal:
            code = int(decimal) if decimal else int(hexadecimal, base=16)
            is_allowed = code <= sys.maxunicode and not _FORBIDDEN.fullmatch(chr(code))
            if is_allowed:
                return match[0]
        self.count += 1
        return REPLACEMENT


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


@dataclass
class _UnitParser:
    """Parses a memory block by block."""

    path: str
    units: int = field(default=0, init=False)
    dropped_codes: int = field(default=0, init=False)
    _counts: Counter[str] = field(default_factory=Counter, init=False)
    _source_language: str | None = field(default=None, init=False)
    _tags: dict[str, str] = field(default_factory=dict, init=False)
    """Standard tags, by the languages as the file writes them."""
    _complete: list[Unit] = field(default_factory=list, init=False)
    """Units that have not been yielded yet."""
    _line: int = field(default=0, init=False)
    """Where the unit begins that is being read."""
    _texts: dict[str, str] = field(default_factory=dict, init=False)
    _size: int = field(default=0, init=False)
    """Number of characters in the unit."""
    _language: str | None = field(default=None, init=False)
    """The language of the variant (tuv) that is being read."""
    _parts: list[str] = field(default_factory=list, init=False)
    """The text of the segment that is being read, in pieces."""
    _depth: int = field(default=0, init=False)
    _segment_depth: int = field(default=0, init=False)
    """Depth of the segment that is being read; 0 outside of segments."""
    _code_depth: int = field(default=0, init=False)
    """Depth of the outermost code that is being read; 0 outside of codes."""
    _code: str = field(default="", init=False)
    """The start of the text of a code."""
    _is_line_break: bool = field(default=False, init=False)
    """Whether the code has the type that TMX recommends for line breaks."""
    _bytes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.EntityDeclHandler = self._refuse_entity
        parser.AttlistDeclHandler = self._refuse_default
        # Called for entities that a document type defines, which is never loaded.
        parser.SkippedEntityHandler = self._refuse_unknown_entity
        self._parser = parser

    def contents(self) -> Contents:
        """Return which texts were read so far."""
        return Contents(self.units, dict(self._counts), self._source_language)

    def parse(self, block: bytes, is_end: bool = False) -> Iterator[Unit]:
        """Yield the units that end in a block.

        Raises:
            UserError: the text is not TMX.
        """
        try:
            self._parser.Parse(block, is_end)
        except expat.ExpatError as error:
            raise self._describe(error) from None
        self._bytes += len(block)
        unparsed_bytes = self._bytes - self._parser.CurrentByteIndex
        if unparsed_bytes > MAX_TOKEN_BYTES and not is_end:
            raise self._error("a tag or comment of over 1 MiB")
        # The parser's dictionary of names never shrinks.
        if len(self._parser.intern) > MAX_NAMES:
            raise self._error(f"over {MAX_NAMES:,} different names of elements")
        complete = self._complete
        self._complete = []
        yield from complete

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"elements are nested over {MAX_DEPTH} deep")
        if self._depth == 1 and name != "tmx":
            raise self._error(f"not a translation memory: its root is <{name[:40]}>, not <tmx>")
        if self._segment_depth:
            if name in CODES and not self._code_depth:
                self._start_code(attributes)
        elif name == "seg":
            self._parts = []
            self._segment_depth = self._depth
            self._parser.CharacterDataHandler = self._add_text
        elif name == "tuv":
            self._language = self._tag_of(attributes.get("xml:lang") or attributes.get("lang"))
        elif name == "tu":
            self._line = self._parser.CurrentLineNumber
            self._texts = {}
            self._size = 0
            self._language = None
        elif name == "header":
            language = attributes.get("srclang")
            if language and language != "*all*":
                self._source_language = self._tag_of(language)

    def _end(self, name: str) -> None:
        depth = self._depth
        self._depth -= 1
        if self._segment_depth:
            if depth == self._code_depth:
                self._end_code()
            elif depth == self._segment_depth:
                self._end_segment()
        elif name == "tu":
            self._end_unit()

    def _start_code(self, attributes: dict[str, str]) -> None:
        self._code_depth = self._depth
        self._is_line_break = attributes.get("type") == "lb"
        self._code = ""
        self.dropped_codes += 1
        self._parser.CharacterDataHandler = self._add_code

    def _end_code(self) -> None:
        # The pattern also matches white space alone, which is a line break itself. It matches an
        # empty code, too, but such a code says nothing.
        is_break_by_text = self._code != "" and _LINE_BREAK_CODE.match(self._code) is not None
        if self._is_line_break or is_break_by_text:
            self._parts.append(" ")  # without it, the words around the code would become one
        self._code_depth = 0
        self._parser.CharacterDataHandler = self._add_text

    def _end_segment(self) -> None:
        self._segment_depth = 0
        self._parser.CharacterDataHandler = None
        language = self._language
        # Of several variants in one language, the first counts.
        if language is not None and language not in self._texts:
            self._texts[language] = in_one_line("".join(self._parts))
        self._parts = []

    def _end_unit(self) -> None:
        texts = self._texts
        if self._size > MAX_UNIT_CHARACTERS:
            texts = dict.fromkeys(texts, "")
            tell_once(
                warn,
                f"{self.path}:{self._line}: a unit of over {MAX_UNIT_CHARACTERS:,} characters, "
                "which is read as blank",
            )
        self.units += 1
        for language in texts:
            self._counts[language] += 1
        self._complete.append(Unit(self._line, texts))
        self._texts = {}

    def _add_text(self, text: str) -> None:
        self._size += len(text)
        if self._size <= MAX_UNIT_CHARACTERS:
            self._parts.append(text)

    def _add_code(self, text: str) -> None:
        if len(self._code) < MAX_CODE_CHARACTERS:
            self._code += text[:MAX_CODE_CHARACTERS]

    def _tag_of(self, language: str | None) -> str | None:
        if not language:
            return None
        if language not in self._tags:
            if len(self._tags) >= MAX_LANGUAGES:
                raise self._error(f"over {MAX_LANGUAGES:,} languages")
            self._tags[language] = _standard(language)
        return self._tags[language]

    def _refuse_entity(self, name: str, *declaration: object) -> None:
        raise self._error(f"the document type defines the entity {name[:40]!r}")

    def _refuse_default(
        self, element: str, name: str, kind: str, default: str | None, is_required: int
    ) -> None:
        if default is not None:
            raise self._error(f"the document type gives {name[:40]!r} a default")

    def _refuse_unknown_entity(self, name: str, is_parameter: int) -> None:
        if not is_parameter:
            raise self._error(f"the entity &{name[:40]}; is defined outside this file, if at all")

    def _error(self, problem: str) -> UserError:
        where = f"{self.path}:{self._parser.CurrentLineNumber}"
        return UserError(f"{where}: {problem}; mtkit does not read such a file, export it again")

    def _describe(self, error: expat.ExpatError) -> UserError:
        where = f"{self.path}:{error.lineno}"
        if error.code in TRUNCATED:
            return UserError(f"{where}: the file ends too early; get another copy")
        reason = expat.ErrorString(error.code)
        return UserError(f"{where}: not XML ({reason}); export it again as TMX")
