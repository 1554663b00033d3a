"""The importers of this extra: tables, spreadsheets and translation memories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from mtkit.config.corpora import TableCorpus
from mtkit.config.language_codes import find_language, short_code
from mtkit.corpus.columns import Columns, is_column_name, name_cells
from mtkit.corpus.files import read_lines, refuse_name
from mtkit.corpus.importers import Importer, Texts, find_importer, suffix_of
from mtkit.corpus.read import read_corpus
from mtkit.errors import UserError
from mtkit.extras.tables.layout import Sample, find_layout, find_texts, parse_column
from mtkit.extras.tables.rows import Row, read_rows
from mtkit.extras.tables.sheets import find_sheet
from mtkit.extras.tables.tmx import find_languages, find_variant, read_tmx
from mtkit.extras.tables.translated_table import (
    CellTable,
    SheetTable,
    WorkbookTable,
    exact_lines,
    open_cells,
)
from mtkit.report import say
from mtkit.scoring.line_files import TextsToScore

COPY = ".xlsx"
"""How the name of a workbook ends that has the translations of another in a new column."""
COPIED_SUFFIXES = (COPY, ".xlsm")


def load_columns(
    files: Sequence[Path], columns: tuple[str, str], sheet: str | None
) -> TextsToScore:
    """Return the references and the translations in two columns of one table, for `mtkit score`.

    Raises:
        UserError: there are several files, or the table cannot be read.
    """
    if len(files) != 1 or find_importer(str(files[0]), sheet) is None:
        raise UserError("--columns needs one table, which has references and translations")
    reference, system = columns
    corpus = TableCorpus(
        table=str(files[0]),
        source_column=parse_column(reference),
        target_column=parse_column(system),
        sheet=sheet,
    )
    pairs = list(read_corpus(corpus))
    references = [pair.source for pair in pairs]
    translations = [pair.target for pair in pairs]
    return {f"column {reference}": references}, {f"column {system}": translations}


def _language_of(name: str) -> str:
    """Return the tag of the language that a column is named after; "" if there is none."""
    part = name.rpartition(".")[2]  # a record around it has a name of its own
    language = find_language(part) if is_column_name(part) else None
    return language or ""


class TabTable(Importer):
    """A table with tabs between its cells (`.tsv`)."""

    def open_rows(self, path: str, columns: Iterable[str | int] = ()) -> Iterator[Row]:
        """Yield the rows; errors are as in `read_rows`. Columns can choose a sheet."""
        return read_rows(path, (f"{line}\n" for line in read_lines(path)))

    def sample(self, path: str) -> Sample:
        """Return the first rows."""
        return Sample(path, self.open_rows(path))

    def read(self, path: str, columns: Columns) -> Texts:
        rows = self.open_rows(path, columns)
        sample = Sample(path, rows)
        layout = find_layout(sample, columns)
        for row in chain(sample.rows, rows):
            if row.number >= layout.first_text:
                source, target = layout.texts_of(path, row)
                yield path, row.number, source, target

    def choose_columns(
        self, path: str, columns: tuple[str, str] | None, languages: tuple[str, str] | None
    ) -> Columns:
        if columns is not None:
            source, target = columns
            return parse_column(source), parse_column(target)
        if languages is not None:
            names = {_language_of(name): name for name in self.column_names(path)}
            first, second = (
                find_variant(names, language) or find_variant(names, short_code(language))
                for language in languages
            )
            if first and second and first != second:
                source, target = names[first], names[second]
                say(f"{path}: reading {source} as source and {target} as target")
                return source, target
        return self.find_columns(path)

    def find_columns(self, path: str) -> Columns:
        """Return the columns that hold text; raise UserError if the choice is not clear."""
        return self.sample(path).find_columns()

    def has_both_sides(self, path: str) -> bool:
        return Path(path).is_file() and len(find_texts(self.sample(path).table)) > 1

    def read_cells(self, path: str, comment: str) -> Iterator[tuple[int, list[str]]] | None:
        return None

    def check_translation(self, path: str, column: str | None, output: Path | None) -> None:
        if column is None and Path(path).is_file():
            as_text = "" if self.has_sheets else f" (to translate its lines as text: < {path})"
            raise UserError(
                f"{path} is a table; choose the column to translate with --columns: "
                f"{name_cells(self.column_names(path))}{as_text}"
            )
        if column is not None and output is not None:
            self._check_output(path, output)

    def column_names(self, path: str) -> Iterable[str]:
        """Return what may name a column."""
        return self.sample(path).known_columns()

    def _check_output(self, path: str, output: Path) -> None:
        """Raise UserError if the output has the name of another kind of table."""
        allowed = [".csv" if self.has_sheets else suffix_of(path)]
        if suffix_of(path) in COPIED_SUFFIXES:
            allowed.append(COPY)
        suffix = suffix_of(output.name)
        if find_importer(output.name) is not None and suffix not in allowed:
            raise UserError(f"{output}: the output is a {' or '.join(allowed)}; choose such a name")
        if suffix == COPY and find_spec("openpyxl") is None:
            raise UserError(
                f"{output}: for this, first run: pip install 'mtkit[sheets]'; or choose a .csv"
            )

    def open_column(self, path: str, column: str, output: Path | None) -> Any:
        return open_cells(
            CellTable,
            path=path,
            column=parse_column(column),
            open_rows=lambda: read_rows(path, exact_lines(path)),
        )


class QuotedTable(TabTable):
    """A table as spreadsheets write it, with quotes around some cells (`.csv`)."""

    counts_rows: ClassVar[bool] = True

    def read_cells(self, path: str, comment: str) -> Iterator[tuple[int, list[str]]]:
        for row in self.open_rows(path):
            # Quotes tell a term such as "#1 fan" from a comment, except in a spreadsheet.
            start = row.raw or "".join(row.cells[:1])
            if not start.lstrip().startswith(comment):
                yield row.number, row.cells or [""]


class Spreadsheet(QuotedTable):
    """A sheet of a workbook, such as an `.xlsx`."""

    has_sheets: ClassVar[bool] = True

    def open_rows(self, path: str, columns: Iterable[str | int] = ()) -> Iterator[Row]:
        return find_sheet(path, self.sheet, columns).rows()

    def open_column(self, path: str, column: str, output: Path | None) -> Any:
        number = parse_column(column)
        sheet = find_sheet(path, self.sheet, [number])
        is_copied = output is not None and suffix_of(output.name) == COPY
        table = open_cells(
            WorkbookTable if is_copied else SheetTable,
            path=path,
            column=number,
            open_rows=sheet.rows,
        )
        if isinstance(table, WorkbookTable):
            table.sheet = sheet.name
            table.write()  # fails before any row is translated, if it fails
        return table


class TranslationMemory(Importer):
    """A translation memory (`.tmx`), whose columns are languages."""

    column_option: ClassVar[str] = "--languages"

    def read(self, path: str, columns: Columns) -> Texts:
        return read_tmx(path, columns)

    def choose_columns(
        self, path: str, columns: tuple[str, str] | None, languages: tuple[str, str] | None
    ) -> Columns:
        named = columns or languages
        if named is None:
            source, target = named = find_languages(path)
            say(f"{path}: reading {source} as source and {target} as target")
        return named

    def languages_of(self, columns: Columns) -> tuple[str | None, str | None]:
        source, target = map(str, columns)
        return find_language(source), find_language(target)

    def check_translation(self, path: str, column: str | None, output: Path | None) -> None:
        refuse_name(path)

    def open_column(self, path: str, column: str, output: Path | None) -> Any:
        refuse_name(path)
