"""Read glossaries: from tables, termbases, the folders of models, and Python code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from mtkit.config.language_codes import find_language, is_language_code, is_language_name
from mtkit.corpus.columns import is_column_name
from mtkit.corpus.files import open_input, tell_once, text_lines
from mtkit.corpus.importers import find_importer, place_of, suffix_of
from mtkit.decoding.glossary import Glossary
from mtkit.decoding.text.line import without_surrogates
from mtkit.errors import UserError
from mtkit.extras.terms.glossary import COMMENT, QUOTED_CELL, Concept, TermGlossary, split_cell
from mtkit.extras.terms.tbx import read_termbase
from mtkit.report import plural, say

MAX_TERM_CHARACTERS = 500
"""Longest term; a longer text is none."""
NAMES_OF_SOURCES = ("source", "src", "original")
NAMES_OF_TARGETS = ("target", "tgt", "trg", "translation")
"""What a header calls the columns of sources and targets."""
_MAY_BE_TWO_CELLS = re.compile(r"[\s;,|=]")


class _Header(NamedTuple):
    """The columns of a table that hold terms."""

    columns: Sequence[int] = (0, 1)
    languages: Sequence[str | None] = (None, None)


def open_terms(glossary: str | Path | Mapping[str, Any] | Glossary) -> TermGlossary:
    """Return a glossary as Python code gives it: the path of a file, or a dictionary.

    A term has one translation, a list of them, or None.

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
    place = "glossary: entry {}".format
    concepts: list[Concept] = []
    for number, (source, target) in enumerate(glossary.items(), 1):
        targets = target if isinstance(target, list | tuple) else [target or ""]
        if not all(isinstance(text, str) for text in (source, *targets)):
            raise TypeError(f"glossary: expected texts, not {source!r}: {target!r}")
        cells = [source, "\n".join(targets)]
        concepts.append(_read_row(cells, place, number))
    return TermGlossary(concepts, name="glossary")


def read_terms(path: Path) -> TermGlossary:
    """Read a glossary: a row for each term, with its translations in other cells.

    The name of a file tells that it is a .csv, a .jsonl, a spreadsheet or a termbase (.tbx); any
    other file has tabs between the cells. The first row may be a header. Say how many terms there
    are.

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
    if suffix_of(name) == ".tbx":
        return read_termbase(name)
    place = partial(place_of, name)
    concepts: list[Concept] = []
    header: _Header | None = None
    for number, cells in _read_cells(path):
        if not any(map(str.strip, cells)):
            continue
        if header is None:
            header = _find_header(cells)
            if header is not None:
                continue
            header = _Header()
        if len(cells) == 1 and _MAY_BE_TWO_CELLS.search(cells[0].strip()):
            raise UserError(
                f"{place(number)}: no tab; write: source, tab, target (after a term that stays "
                "untranslated: a tab, and nothing else)"
            )
        chosen: list[str] = []
        for column in header.columns:
            cell = cells[column] if column < len(cells) else ""
            chosen.append(cell)
        if any(map(str.strip, chosen)):
            concepts.append(_read_row(chosen, place, number))
    languages = header.languages if header else (None, None)
    return TermGlossary(concepts, languages, name)


def _find_header(cells: Sequence[str]) -> _Header | None:
    """Return the columns that the first row names; None if it is an entry."""
    languages: dict[int, str | None] = {}
    """What the columns with a name are: a language, or a side."""
    columns: dict[str, int] = {}
    """The first column of each language."""
    for number, cell in enumerate(cells):
        if is_column_name(cell):
            language = _language_of(cell.strip())
            languages[number] = language
            if language is not None:
                columns.setdefault(language, number)
    if len(columns) > 1:
        return _Header(list(columns.values()), list(columns))
    sides = [number for number, language in languages.items() if language is None]
    if len(sides) < 2:
        sides = sorted([*sides, *columns.values()])
    if len(sides) < 2:  # such as the entry English, Englisch
        return None
    first, second = sides[:2]
    is_target_first = cells[first].strip().lower() in NAMES_OF_TARGETS
    is_source_second = cells[second].strip().lower() in NAMES_OF_SOURCES
    if is_target_first or is_source_second:
        first, second = second, first
    return _Header((first, second), (languages[first], languages[second]))


def _language_of(cell: str) -> str | None:
    """Return the language that a cell of a header names; None if it names a side."""
    for name in (cell, cell.partition("(")[0].strip()):  # English (United States)
        if is_language_code(name) or is_language_name(name):
            return find_language(name)
    return None


def _read_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each row that is no comment."""
    name = str(path)
    importer = find_importer(name)
    rows = importer.read_cells(name, COMMENT) if importer else None
    if rows is not None:
        yield from rows
        return
    with open_input(path) as file:
        for number, line in enumerate(text_lines(file, name), 1):
            if not line.lstrip().startswith(COMMENT):
                yield number, [_without_quotes(cell) for cell in line.split("\t")]


def _without_quotes(cell: str) -> str:
    """Return what is in the quotes around a cell, as spreadsheets write them."""
    quoted = QUOTED_CELL.fullmatch(cell.strip())
    return quoted[1].replace('""', '"') if quoted else cell


def _read_row(cells: Sequence[str], place: Callable[[int], str], number: int) -> Concept:
    """Return the terms of a row; each line of a cell is one.

    Raises:
        UserError: the row is faulty; `place` names it by its number.
    """
    concept = tuple(map(split_cell, cells))
    terms = list(chain.from_iterable(concept))
    problem = ""
    if len(concept) == 2 and not concept[0]:
        problem = "no source; write: source, tab, target"
    elif any(len(term) > MAX_TERM_CHARACTERS for term in terms):
        problem = f"over {MAX_TERM_CHARACTERS} characters; give terms, not texts"
    elif any("\ufffd" in term for term in terms):
        problem = "not UTF-8; convert the file, for example with: iconv -f CP1252 -t UTF-8"
    elif any(term != without_surrogates(term) for term in terms):
        problem = "half of a surrogate pair, which is no character; correct the term"
    if problem:
        raise UserError(f"{place(number)}: {problem}")
    return concept
