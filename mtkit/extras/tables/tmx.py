"""Read translation memories (`.tmx`, all versions) as tables whose columns are languages.

The parser forgets each unit that ends, so memory does not grow with the file. What could make it
grow is refused: entities and units without an end; and libxml2 refuses deep nesting. A document
type is accepted, but never loaded.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any

from mtkit.config.language_codes import find_language
from mtkit.corpus.columns import Columns, name_cells
from mtkit.corpus.files import MAX_LINE_BYTES, open_existing, tell_once, unpacked_blocks
from mtkit.corpus.importers import Texts
from mtkit.corpus.text import in_one_line
from mtkit.errors import UserError
from mtkit.extras.tables.tmx_codes import CodeWriter, local_name
from mtkit.report import plural, say, warn

MAX_UNIT_BYTES = 1 << 22
"""Largest unit, or other part of a file, that the parser keeps until it ends."""
MAX_LANGUAGES = 300
MAX_REFERENCE_CHARACTERS = len("&#1114111;")
UTF_8 = "utf-8-sig"
"""The encoding without a declaration; a byte order mark is left out."""
ENCODING_SAMPLE = r"xn--4ca.\u0041"
"""Text that each encoding of XML files writes as ASCII does, but idna and unicode-escape do not."""
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
"""The attribute xml:lang, as lxml names it."""

Unit = tuple[int, dict[str, str]]
"""The line where a unit begins, from 1, and its texts by the tags of their languages, in order."""

# Repeats are bounded, so that the search takes linear time.
_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s{0,9}=\s{0,9}["']([\w.:-]{1,40})["']""")
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML forbids."""
_REFERENCE = re.compile("&#(?:([0-9]{1,7})|x([0-9a-fA-F]{1,6}));")
"""A reference to a character by its number."""


def read_tmx(path: str, columns: Columns) -> Texts:
    """Yield file, line, source and target of each unit with a text in both languages.

    `columns`: languages, by any code or name; or 0 and 1 for those of `find_languages`. A language
    without a region or script stands for all its variants; of several variants in a unit the first
    is read, and a text over MAX_LINE_BYTES is blank. Say how many units lack a language, and how
    many formatting codes there are.

    Raises:
        UserError: the file is damaged or not TMX, or no unit has texts in both languages.
    """
    names = tuple(map(str, columns))
    if names == ("0", "1"):
        names = find_languages(path)
    source, target = map(_standard, names)
    if source == target:
        raise UserError(f"{path}: source and target are both {source}; choose two languages")
    memory = UnitReader(path)
    paired = 0
    unpaired = 0
    for line, texts in memory.units():
        source_tag = find_variant(texts, source)
        other_tags = [tag for tag in texts if tag != source_tag]
        target_tag = find_variant(other_tags, target)
        if source_tag is None or target_tag is None:
            unpaired += 1
            continue
        paired += 1
        yield path, line, texts[source_tag], texts[target_tag]
    if not paired:
        raise memory.error(f"no unit has texts in {source} and {target}; choose from its languages")
    if unpaired:
        units = plural(paired + unpaired, "unit")
        tell_once(
            say,
            f"{path}: leaving out {unpaired:,} of {units}, which have no text in {source} or in "
            f"{target}",
        )
    if memory.codes.count:
        codes = plural(memory.codes.count, "formatting code")
        tell_once(say, f"{path}: kept {codes} as placeholders or tags, such as %s or <1>")


def find_languages(path: str) -> tuple[str, str]:
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
        tags = list(dict.fromkeys(_names_of(tag)[1] for tag in tags))
    if len(tags) != 2:
        raise memory.error(
            "choose two languages with --columns S T, or with source_column and target_column"
        )
    first, second = tags
    source = _standard(memory.source_language)
    # The header may name en-US where the texts have en.
    if source != first and second in _names_of(source):
        return second, first
    return first, second


def _standard(language: str) -> str:
    """Return the tag of a language; of one without a standard code, its name in small letters."""
    return find_language(language) or language.strip().lower().replace("_", "-")


@cache
def _names_of(tag: str) -> list[str]:
    """Return what names a variant: its tag, that without a region, and that without a script.

    These are zh-TW, zh-Hant and zh; and en-US, en and en.
    """
    from langcodes import Language

    if find_language(tag) is None:
        return [tag, tag]
    likely = Language.get(tag).maximize()  # adds the script: Hant for zh-TW, but Hans for zh
    without_region = Language.make(language=likely.language, script=likely.script)
    return [tag, _standard(without_region.to_tag()), str(likely.language)]


def find_variant(tags: Iterable[str], language: str) -> str | None:
    """Return the tag that is exactly a language, else the first of its variants."""
    variants = [tag for tag in tags if language in _names_of(tag)]
    return language if language in variants else next(iter(variants), None)


@dataclass
class UnitReader:
    """Reads the units of a memory, and counts their languages and codes."""

    path: str
    codes: CodeWriter = field(default_factory=CodeWriter)
    counts: Counter[str] = field(default_factory=Counter)
    """Number of units with a text in a language, by its tag."""
    source_language: str = ""
    """What the header names as the language of the sources."""

    def units(self) -> Generator[Unit]:
        """Yield the units.

        Raises:
            UserError: the file is not TMX, or the parser would have to keep too much.
        """
        from lxml.etree import XMLPullParser, XMLSyntaxError

        parser = XMLPullParser(
            events=("end",),
            tag=("{*}header", "{*}tu"),
            encoding="utf-8",
            load_dtd=False,
            no_network=True,
            resolve_entities="internal",  # of these a file has none, see `_refuse_entities`
            remove_comments=True,
            remove_pis=True,
        )
        kept_bytes = 0
        line = 1
        try:
            for block in _read_blocks(self.path):
                parser.feed(block)
                for _, element in parser.read_events():
                    self._refuse_entities(element)
                    if local_name(element.tag) == "header":
                        self.source_language = element.get("srclang", "")
                    else:
                        yield self._read_unit(element)
                    _forget(element)
                    kept_bytes = 0
                kept_bytes += len(block)
                line += block.count(b"\n")
                if kept_bytes > MAX_UNIT_BYTES:
                    raise self._refusal(line, "over 4 MiB without the end of a unit")
            parser.close()
        except XMLSyntaxError as error:
            problem = f"{self.path}:{error.lineno or 1}: not XML ({error.msg})"
            raise UserError(f"{problem}; export it again as TMX") from None

    def error(self, problem: str) -> UserError:
        """Return the error for a memory without the wanted languages, which lists those it has."""
        if not self.counts:
            problem = "no translation units with languages (xml:lang); export it again as TMX"
            return UserError(f"{self.path} has {problem}")
        languages: list[str] = []
        for tag, count in self.counts.items():
            languages.append(f"{tag} ({count:,})")
        return UserError(f"{self.path}: {problem}: {name_cells(languages)}")

    def _refusal(self, line: int, problem: str) -> UserError:
        where = f"{self.path}:{line}"
        return UserError(f"{where}: {problem}; mtkit does not read such a file, export it again")

    def _refuse_entities(self, element: Any) -> None:
        document_type = element.getroottree().docinfo.internalDTD
        if document_type is not None:
            for entity in document_type.iterentities():
                problem = f"the document type defines the entity {entity.name[:40]!r}"
                raise self._refusal(element.sourceline, problem)

    def _read_unit(self, element: Any) -> Unit:
        """Count the languages of a unit, and return it; the first text of each language counts."""
        line = element.sourceline
        texts: dict[str, str] = {}
        self.codes.start_unit()
        for segment in element.iter("{*}seg"):
            variant = segment.getparent()
            tag = _standard(variant.get(XML_LANGUAGE) or variant.get("lang", ""))
            if tag and tag not in texts:
                text = in_one_line(self.codes.write(segment))
                texts[tag] = text if len(text) <= MAX_LINE_BYTES else ""
        self.counts.update(texts.keys())
        if len(self.counts) > MAX_LANGUAGES:
            raise self._refusal(line, f"over {MAX_LANGUAGES:,} languages")
        return line, texts


def _forget(element: Any) -> None:
    """Remove the content of an element that has ended, and the elements before it.

    The element itself must stay, because the parser still needs it.
    """
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]


def _read_blocks(path: str) -> Generator[bytes]:
    """Yield the blocks of a file as UTF-8, with U+FFFD for each character that XML forbids.

    Some programs write such characters, although other XML parsers refuse the file. The byte order
    mark or the declaration names the encoding. Bytes that are not text become surrogates, which XML
    forbids.
    """
    replaced = 0
    rest = ""
    with open_existing(path) as file:
        blocks = unpacked_blocks(file, path)
        start = next(blocks, b"")
        encoding = _declared_encoding(path, start)
        texts = codecs.iterdecode(chain([start], blocks), encoding, errors="surrogateescape")
        try:
            for block in texts:
                text = rest + block
                cut = text.rfind("&", -MAX_REFERENCE_CHARACTERS)
                rest = text[cut:] if cut >= 0 else ""  # a reference may go on in the next block
                text = _REFERENCE.sub(_resolve, text.removesuffix(rest))
                text, count = _FORBIDDEN.subn("\ufffd", text)
                replaced += count
                yield text.encode()
            yield rest.encode(errors="replace")
        except UnicodeError as error:
            raise UserError(f"{path} is not text in {encoding} ({error})") from None
    if replaced:
        characters = plural(replaced, "invalid character")
        tell_once(warn, f"{path}: replaced {characters} (not in its encoding, or forbidden by XML)")


def _resolve(reference: re.Match[str]) -> str:
    """Return "\\0" for a reference to a character that XML forbids, else the reference."""
    decimal, hexadecimal = reference.groups()
    code = int(decimal) if decimal else int(hexadecimal, base=16)
    is_forbidden = code > sys.maxunicode or _FORBIDDEN.match(chr(code))
    return "\0" if is_forbidden else reference[0]


def _declared_encoding(path: str, start: bytes) -> str:
    """Return the encoding that the XML declaration at the start of a file names, or UTF-8.

    Raises:
        UserError: the encoding is unknown.
    """
    declaration = _ENCODING.match(start.removeprefix(codecs.BOM_UTF8))
    name = declaration[1].decode().lower() if declaration else UTF_8
    # A declaration that can be read as ASCII is not in UTF-16, even if it says so: the text is in
    # UTF-8, or `unpacked_blocks` has converted it to UTF-8.
    if name.startswith("utf"):
        return UTF_8
    with suppress(LookupError, ValueError):
        if ENCODING_SAMPLE.encode().decode(name) == ENCODING_SAMPLE:
            return name
    raise UserError(f"{path}:1: unknown encoding {name!r}; save it in UTF-8")
