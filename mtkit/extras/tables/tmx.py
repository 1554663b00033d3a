"""Read translation memories (`.tmx`, all versions) as tables whose columns are languages.

The parser gets a file line by line and forgets each unit that ends, so memory does not grow with
the file. What could make it grow is refused: entities, deep nesting, and units without an end. A
document type is accepted, but never loaded.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any

from mtkit.config.language_codes import find_language
from mtkit.corpus.columns import Columns, name_cells
from mtkit.corpus.files import open_existing, tell_once, unpacked_blocks
from mtkit.corpus.importers import Texts
from mtkit.corpus.text import in_one_line
from mtkit.errors import UserError
from mtkit.extras.tables.tmx_codes import CodeWriter, local_name
from mtkit.report import plural, say, warn

MAX_UNIT_CHARACTERS = 1 << 20
"""Largest unit; a larger one is no sentence, and is read as a blank pair."""
MAX_UNIT_BYTES = 1 << 22
"""Largest unit, or other part of a file, that the parser keeps until it ends."""
MAX_NAMES = 10_000
"""Largest number of different names of elements and attributes, which the parser keeps."""
MAX_LANGUAGES = 300
UTF_8 = "utf-8-sig"
"""The encoding without a declaration; a byte order mark is left out."""
NO_CHARSETS = ("idna", "punycode", "raw-unicode-escape", "unicode-escape")
"""Encodings of Python that no XML file has; some need quadratic time."""

XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
"""The attribute xml:lang, as lxml names it."""

LanguagePair = tuple[str, str]
Unit = tuple[int, dict[str, str]]
"""The line where a unit begins, from 1, and its texts by the tags of their languages, in order."""

# Repeats are bounded, so that the search takes linear time.
_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s{0,9}=\s{0,9}["']([\w.:-]{1,40})["']""")
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML forbids."""
_REFERENCE = re.compile("&#(?:([0-9]{1,7})|x([0-9a-fA-F]{1,6}));")
"""A reference to a character by its number."""
_REFERENCE_AT_END = re.compile("&[^;&]{0,10}\\Z")
"""The start of a reference to a character, such as `&#1114111;`, that goes on in the next block."""


def read_tmx(path: str, columns: Columns) -> Texts:
    """Yield file, line, source and target of each unit with a text in both languages.

    `columns`: languages, by any code or name; or 0 and 1 for those of `find_languages`. A language
    without a region or script stands for all its variants; of several variants in a unit the first
    is read. Say how many units lack a language, and how many formatting codes there are.

    Raises:
        UserError: the file is damaged or not TMX, or no unit has texts in both languages.
    """
    named = find_languages(path) if columns == (0, 1) else map(str, columns)
    source, target = map(_standard, named)
    if source == target:
        raise UserError(f"{path}: source and target are both {source}; choose two languages")
    memory = UnitReader(path)
    unpaired = 0
    with closing(memory.units()) as units:
        for line, texts in units:
            source_tag = _find_variant(texts, source)
            other_tags = [tag for tag in texts if tag != source_tag]
            target_tag = _find_variant(other_tags, target)
            if source_tag is None or target_tag is None:
                unpaired += 1
                continue
            yield path, line, texts[source_tag], texts[target_tag]
    if unpaired == memory.unit_count:
        raise memory.error(f"no unit has texts in {source} and {target}; choose from its languages")
    if unpaired:
        tell_once(
            say,
            f"{path}: leaving out {unpaired:,} of {plural(memory.unit_count, 'unit')}, which have "
            f"no text in {source} or in {target}",
        )
    codes = memory.codes
    count = codes.readable + codes.numbered
    if count:
        tell_once(
            say,
            f"{path}: {plural(count, 'formatting code')} in its texts: {codes.readable:,} kept as "
            f"placeholders or tags, {codes.numbered:,} as numbered tags such as <1>",
        )


def find_languages(path: str) -> LanguagePair:
    """Return the two languages of a memory, that of the sources first.

    If the texts have more than two tags, regions are ignored: a memory in en-US, en-GB and de has
    the languages en and de.

    Raises:
        UserError: the file is damaged or not TMX, or it has not exactly two languages.
    """
    memory = UnitReader(path)
    for _ in memory.units():
        pass
    tags = list(memory.counts)
    if len(tags) != 2:
        tags = list(dict.fromkeys(map(_without_region, tags)))
    if len(tags) != 2:
        raise memory.error(
            f"choose two of its {len(memory.counts)} languages with --columns S T, or with "
            "source_column and target_column"
        )
    first, second = tags
    source = _standard(memory.source_language)
    # The header may name en-US where the texts have en.
    if source != first and _is_variant(source, second):
        return second, first
    return first, second


def _standard(language: str) -> str:
    """Return the tag of a language; of one without a standard code, its name in small letters."""
    return find_language(language) or language.strip().lower().replace("_", "-")


@cache
def _parse(tag: str) -> Any:
    """Return the `langcodes.Language` of a tag; None if no language has it."""
    from langcodes import Language

    standard_tag = find_language(tag)
    return Language.get(standard_tag) if standard_tag else None


def _without_region(tag: str) -> str:
    """Return the language and script of a tag, such as zh-Hant for zh-TW."""
    language = _parse(tag)
    if language is None:
        return tag
    likely = language.maximize()  # adds the script: Hant for zh-TW, but Hans for zh
    return _standard(f"{language.language}-{likely.script}" if likely.script else tag)


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
    is_same_language = variant.language == wanted.language
    is_same_script = wanted.script in (None, variant.maximize().script)
    is_same_region = wanted.territory in (None, variant.territory)
    return is_same_language and is_same_script and is_same_region


def _find_variant(tags: Iterable[str], language: str) -> str | None:
    """Return the tag that is exactly a language, else the first of its variants."""
    variants = [tag for tag in tags if _is_variant(tag, language)]
    if language in variants:
        return language
    return variants[0] if variants else None


@dataclass
class UnitReader:
    """Reads the units of a memory, and counts them."""

    path: str
    codes: CodeWriter = field(default_factory=CodeWriter, init=False)
    unit_count: int = field(default=0, init=False)
    counts: Counter[str] = field(default_factory=Counter, init=False)
    """Number of units with a text in a language, by its tag."""
    source_language: str = field(default="", init=False)
    """What the header names as the language of the sources."""
    _line: int = field(default=1, init=False)
    """Number of the line that is being read."""
    _names: set[str] = field(default_factory=set, init=False)
    """Names of elements and attributes."""

    def units(self) -> Generator[Unit]:
        """Yield the units.

        Raises:
            UserError: the file is not TMX, or the parser would have to keep too much.
        """
        from lxml.etree import XMLPullParser, XMLSyntaxError

        parser = XMLPullParser(
            events=("start", "end"),
            encoding="utf-8",
            load_dtd=False,
            no_network=True,
            resolve_entities="internal",  # of these a file has none, see `_check_start`
            remove_comments=True,
            remove_pis=True,
        )
        try:
            with closing(_read_lines(self.path)) as lines:
                yield from self._parse(parser, lines)
            parser.close()
        except XMLSyntaxError as error:
            problem = f"{self.path}:{error.lineno or 1}: not XML ({error.msg})"
            raise UserError(f"{problem}; export it again as TMX") from None

    def _parse(self, parser: Any, lines: Iterable[bytes]) -> Generator[Unit]:
        unit: Any = None
        kept_bytes = 0
        for line in lines:
            parser.feed(line)
            kept_bytes += len(line)
            for event, element in parser.read_events():
                name = local_name(element.tag)
                if event == "start":
                    self._check_start(element)
                    if unit is None and name == "tu":
                        unit = element
                    continue
                if element is unit:
                    yield self._read_unit(element)
                    unit = None
                elif name == "header":
                    self.source_language = element.get("srclang", "")
                if unit is None:
                    _forget(element)
                    kept_bytes = 0
            if kept_bytes > MAX_UNIT_BYTES:
                raise self._refusal("over 4 MiB without the end of a unit")
            self._line += line.endswith(b"\n")

    def error(self, problem: str) -> UserError:
        """Return the error for a memory without the wanted pairs.

        `problem`: what is wrong if it has texts in several languages, which the error lists.
        """
        if not self.unit_count:
            return UserError(f"{self.path} has no translation units; export it again")
        if not self.counts:
            return UserError(f"{self.path}: its texts name no languages (xml:lang)")
        if len(self.counts) == 1:
            problem = "a corpus needs two languages, but all its texts are in one language"
        languages = name_cells(f"{tag} ({count:,})" for tag, count in self.counts.items())
        return UserError(f"{self.path}: {problem}: {languages}")

    def _refusal(self, problem: str) -> UserError:
        where = f"{self.path}:{self._line}"
        return UserError(f"{where}: {problem}; mtkit does not read such a file, export it again")

    def _check_start(self, element: Any) -> None:
        """Raise UserError if the root is not that of TMX, or there are entities or many names."""
        if not self._names:
            name = local_name(element.tag)
            if name != "tmx":
                root = f"its root is <{name[:40]}>, not <tmx>"
                raise self._refusal(f"not a translation memory: {root}")
            document_type = element.getroottree().docinfo.internalDTD
            if document_type is not None:
                for entity in document_type.iterentities():
                    name = entity.name[:40]
                    raise self._refusal(f"the document type defines the entity {name!r}")
        self._names.update((element.tag, *element.keys()))
        if len(self._names) > MAX_NAMES:
            raise self._refusal(f"over {MAX_NAMES:,} different names")

    def _read_unit(self, element: Any) -> Unit:
        """Count a unit, and return it; of several texts in one language, with the first."""
        line = element.sourceline
        texts: dict[str, str] = {}
        self.codes.start_unit()
        for segment in element.iter("{*}seg"):
            variant = segment.getparent()
            language = variant.get(XML_LANGUAGE) or variant.get("lang")
            tag = _standard(language) if language else None
            if tag is not None and tag not in texts:
                texts[tag] = in_one_line(self.codes.write(segment))
        if sum(map(len, texts.values())) > MAX_UNIT_CHARACTERS:
            texts = dict.fromkeys(texts, "")
            tell_once(
                warn,
                f"{self.path}:{line}: a unit of over {MAX_UNIT_CHARACTERS:,} characters, "
                "which is read as blank",
            )
        self.unit_count += 1
        self.counts.update(texts.keys())
        if len(self.counts) > MAX_LANGUAGES:
            raise self._refusal(f"over {MAX_LANGUAGES:,} languages")
        return line, texts


def _forget(element: Any) -> None:
    """Remove the content of an element that has ended, and the elements before it.

    The element itself must stay, because the parser still needs it.
    """
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]


def _read_lines(path: str) -> Generator[bytes]:
    """Yield the lines of a file as UTF-8, with U+FFFD for each character that XML forbids.

    Some programs write such characters, although other XML parsers refuse the file. The byte order
    mark or the declaration names the encoding. Bytes that are not text become surrogates, which XML
    forbids.
    """
    replaced = 0
    unended = ""
    with open_existing(path) as file, closing(unpacked_blocks(file, path)) as blocks:
        start = next(blocks, b"")
        encoding = _declared_encoding(path, start)
        texts = codecs.iterdecode(chain([start], blocks), encoding, errors="surrogateescape")
        try:
            for block in texts:
                text = _REFERENCE.sub(_resolve, unended + block)
                match = _REFERENCE_AT_END.search(text)
                unended = match[0] if match else ""
                text, count = _FORBIDDEN.subn("\ufffd", text.removesuffix(unended))
                replaced += count
                # A text may end within a line. The parser does not mind.
                yield from io.BytesIO(text.encode())
            yield unended.encode(errors="replace")
        except UnicodeError as error:
            raise UserError(f"{path} is not text in {encoding} ({error})") from None
    if replaced:
        characters = plural(replaced, "invalid character")
        tell_once(warn, f"{path}: replaced {characters} (not in its encoding, or forbidden by XML)")


def _resolve(reference: re.Match[str]) -> str:
    """Return the character of a reference if XML forbids it, else the reference."""
    decimal, hexadecimal = reference.groups()
    code = int(decimal) if decimal else int(hexadecimal, base=16)
    if code > sys.maxunicode:
        return "\0"
    character = chr(code)
    return character if _FORBIDDEN.match(character) else reference[0]


def _declared_encoding(path: str, start: bytes) -> str:
    """Return the encoding that the XML declaration at the start of a file names, or UTF-8.

    Raises:
        UserError: the encoding is unknown.
    """
    declaration = _ENCODING.match(start.removeprefix(codecs.BOM_UTF8))
    if declaration is None:
        return UTF_8
    name = declaration[1].decode()
    with suppress(LookupError, ValueError):
        "<tmx".encode(name)  # raises for codecs that cannot encode text, such as hex
        encoding = codecs.lookup(name).name
        # A declaration that can be read as ASCII is not in UTF-16, even if it says so: the text is
        # in UTF-8, or `unpacked_blocks` has converted it to UTF-8.
        if encoding.startswith("utf"):
            return UTF_8
        if encoding not in NO_CHARSETS:
            return encoding
    raise UserError(f"{path}:1: unknown encoding {name!r}; save it in UTF-8")
