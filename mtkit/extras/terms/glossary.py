"""Glossaries: terms of the source language, and what each of them becomes; how files are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

from mtkit.config.language_codes import is_language_code, is_language_name, short_code
from mtkit.corpus.characters import is_letter
from mtkit.corpus.columns import is_column_name
from mtkit.corpus.files import open_input, tell_once, text_lines
from mtkit.corpus.importers import find_importer, place_of
from mtkit.corpus.text import is_blank, normalise
from mtkit.decoding.glossary import GLOSSARY, Direction, Glossary
from mtkit.errors import UserError
from mtkit.report import plural, say

MAX_TERM_CHARACTERS = 500
"""Longest source or target of an entry; a longer one is no term."""
COMMENT = "#"
"""Begins a line that is no entry."""
HEADER_OF_SIDES = ("source", "target")
NAMES_OF_TARGETS = ("target", "tgt", "trg", "translation")
"""What a header calls the column of targets."""
_QUOTED = re.compile(r'"((?:[^"]|"")+)"')
_NAMES_DELIMITER = re.compile(r"sep=[;,|]?")
"""The first row of a .csv for Excel."""
_MAY_BE_TWO_CELLS = re.compile(r"[\s;,|=]")


class TermGlossary(Glossary):
    """Terms and their translations."""

    def __init__(
        self, entries: Mapping[str, str], languages: Direction = (None, None), name: str = ""
    ) -> None:
        """Take the entries, whose texts are normalised.

        A target is empty if the term stays untranslated. `languages`: those of the header, if any.
        `name`: how messages name the glossary.
        """
        self.entries = entries
        self.languages = languages
        self.name = name

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"<Glossary: {len(self)} entries>"

    def directed(self, languages: Direction) -> TermGlossary:
        """Return the glossary in the direction of a model: swapped if the header is reversed.

        Raises:
            UserError: the glossary is for other languages.
        """
        if self.languages == (None, None):
            return self
        header = [short_code(language) or None for language in self.languages]
        model = [short_code(language) or None for language in languages]
        agreements = _count_equal(header, model)
        if _count_equal(header[::-1], model) > agreements:
            direction = f"{header[1]} to {header[0]}"
            tell_once(say, f"{self.name}: the columns are swapped, to translate {direction}")
            return self._reversed
        if agreements == 0 and None not in (*header, *model):
            raise UserError(
                f"{self.name}: the header says {header[0]} to {header[1]}, but the model "
                f"translates {model[0]} to {model[1]}; correct the header, or write: source, tab, "
                "target"
            )
        return self

    @cached_property
    def _reversed(self) -> TermGlossary:
        entries: dict[str, str] = {}
        for source, target in self.entries.items():
            other = target or source
            if other in entries:
                raise UserError(
                    f"{self.name}: the header is reversed for this model, and {other!r} has two "
                    "translations; keep one of them"
                )
            entries[other] = source if target else ""
        source_language, target_language = self.languages
        return TermGlossary(entries, (target_language, source_language), self.name)

    @cached_property
    def digest(self) -> str:
        """The sha256 of the entries, in order."""
        return hashlib.sha256(self._content).hexdigest()

    def save(self, folder: Path) -> None:
        """Write the glossary into the folder of a model, where `load_terms` reads it."""
        (folder / GLOSSARY).write_bytes(self._content)

    @property
    def _content(self) -> bytes:
        """The glossary as a file in UTF-8, which `read_terms` reads as it is."""
        first, second = self.languages
        # Without a header, the first entry could look like one.
        header = (first, second) if first and second else HEADER_OF_SIDES
        rows = (header, *self.entries.items())
        return "".join("\t".join(map(_with_quotes, row)) + "\n" for row in rows).encode()


def _count_equal(codes: Sequence[str | None], others: Sequence[str | None]) -> int:
    pairs = zip(codes, others, strict=True)
    return sum(code is not None and code == other for code, other in pairs)


def open_terms(glossary: str | Path | Mapping[str, str] | Glossary) -> TermGlossary:
    """Return a glossary as Python code gives it: the path of a file, or a dictionary.

    Raises:
        TypeError: it is neither.
        UserError: the file cannot be read, or an entry is faulty.
    """
    if isinstance(glossary, TermGlossary):
        return glossary
    if isinstance(glossary, str | Path):
        return read_terms(Path(glossary))
    if not isinstance(glossary, Mapping):
        raise TypeError("glossary: expected a path or a dictionary of terms and translations")
    collected = _Entries(lambda number: f"glossary: entry {number}")
    for number, (source, target) in enumerate(glossary.items(), 1):
        is_text = isinstance(source, str) and (target is None or isinstance(target, str))
        if not is_text:
            raise TypeError(f"glossary: expected texts, not {source!r}: {target!r}")
        collected.add([source, target or ""], number)
    return TermGlossary(collected.entries, name="glossary")


def read_terms(path: Path) -> TermGlossary:
    """Read a glossary: a row for each term, with its translation in the second cell.

    The name of a .csv or of a spreadsheet tells that the file is one; any other file has tabs
    between the cells. The first row may be a header. Say how many terms there are.

    Raises:
        UserError: the file cannot be read, or an entry is faulty; the message names the line.
    """
    glossary = load_terms(path)
    tell_once(say, f"{glossary.name}: {plural(len(glossary), 'term')}")
    return glossary


def load_terms(path: Path) -> TermGlossary:
    """Read the glossary that a model brings along.

    Raises:
        UserError: the file is damaged.
    """
    name = str(path)
    entries = _Entries(partial(place_of, name))
    languages: Direction = (None, None)
    is_reversed = False
    is_first = True
    for number, cells in _read_cells(path):
        is_blank_row = not any(map(str.strip, cells))
        if is_blank_row or (is_first and _NAMES_DELIMITER.fullmatch("".join(cells))):
            continue
        if is_first:
            is_first = False
            header = _find_header(cells)
            if header is not None:
                languages = header
                is_reversed = cells[0].strip().lower() in NAMES_OF_TARGETS
                continue
        if is_reversed:
            cells[:2] = reversed(cells[:2])
        entries.add(cells, number)
    return TermGlossary(entries.entries, languages, name)


def _find_header(cells: Sequence[str]) -> Direction | None:
    """Return the languages of the first row if it is a header; None if it is an entry."""
    names = [cell.strip() for cell in cells[:2]]
    if len(names) < 2 or not all(map(is_column_name, names)):
        return None
    first, second = map(_language_of, names)
    is_entry = first is not None and first == second  # English, Englisch
    return None if is_entry else (first, second)


def _language_of(cell: str) -> str | None:
    """Return the code of the language that a cell of a header names; None if it names a side."""
    return short_code(cell) if is_language_code(cell) or is_language_name(cell) else None


def _read_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each row that is no comment."""
    name = str(path)
    importer = find_importer(name)
    is_stream = path.exists() and not path.is_file()
    rows = None if importer is None or is_stream else importer.read_cells(name, COMMENT)
    if rows is not None:
        yield from rows
        return
    with open_input(path) as file:
        for number, line in enumerate(text_lines(file, name), 1):
            if not _is_comment(line):
                yield number, [_without_quotes(cell) for cell in line.split("\t")]


def _is_comment(row: str) -> bool:
    return row.lstrip().startswith(COMMENT)


def _with_quotes(cell: str) -> str:
    """Return a cell in quotes if `load_terms` would take it for a comment, or for quoted."""
    is_ambiguous = _is_comment(cell) or _QUOTED.fullmatch(cell)
    return '"{}"'.format(cell.replace('"', '""')) if is_ambiguous else cell


def _without_quotes(cell: str) -> str:
    """Return what is in the quotes around a cell, as spreadsheets write them."""
    quoted = _QUOTED.fullmatch(cell.strip())
    return quoted[1].replace('""', '"') if quoted else cell


class _Entries:
    """The entries of a glossary while it is read."""

    def __init__(self, place: Callable[[int], str]) -> None:
        """Take a function that names a row by its number, for messages."""
        self.entries: dict[str, str] = {}
        self._place = place
        self._numbers: list[int] = []
        """The row of each entry, in the order of the entries."""

    def add(self, cells: Sequence[str], number: int) -> None:
        """Add the entry of a row.

        Raises:
            UserError: the entry is faulty.
        """
        if len(cells) != 2:
            self._check_cells(cells, number)
        source = normalise(cells[0])
        target = normalise(cells[1]) if len(cells) > 1 else ""
        if target == source:
            target = ""
        problem = _find_problem(source, target)
        if problem is not None:
            raise UserError(f"{self._place(number)}: {problem}")
        earlier = self.entries.setdefault(source, target)
        if len(self.entries) > len(self._numbers):
            self._numbers.append(number)
        elif earlier != target:
            first = self._place(self._numbers[list(self.entries).index(source)])
            raise UserError(
                f"{self._place(number)}: {source!r} has another translation than in {first}; keep "
                "one of them"
            )

    def _check_cells(self, cells: Sequence[str], number: int) -> None:
        """Raise UserError if a row has more than two cells, or one that may be two."""
        if any(map(str.strip, cells[2:])):
            raise UserError(
                f"{self._place(number)}: {len(cells)} cells; an entry has two (source, tab, target)"
            )
        if len(cells) == 1 and _MAY_BE_TWO_CELLS.search(cells[0].strip()):
            raise UserError(
                f"{self._place(number)}: no tab; write: source, tab, target (after a term that "
                "stays untranslated: a tab, and nothing else)"
            )


def _find_problem(source: str, target: str) -> str | None:
    """Return what is wrong with an entry; None if nothing is."""
    if not source or (not is_letter(source[0]) and is_blank(source)):
        return "no source; write: source, tab, target"
    if len(source) > MAX_TERM_CHARACTERS or len(target) > MAX_TERM_CHARACTERS:
        return f"over {MAX_TERM_CHARACTERS} characters; give terms, not texts"
    if "\ufffd" in source or "\ufffd" in target:
        return "not UTF-8; convert the file, for example with: iconv -f CP1252 -t UTF-8"
    return None
