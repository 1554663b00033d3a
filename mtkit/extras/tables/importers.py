"""The importers of this extra: tables, spreadsheets and translation memories."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from mtkit.config.language_codes import find_language
from mtkit.corpus.columns import Columns
from mtkit.corpus.files import read_lines, refuse_name
from mtkit.corpus.importers import Importer, Texts, find_importer, suffix_of
from mtkit.corpus.text import normalise
from mtkit.errors import UserError
from mtkit.extras.tables.layout import parse_column
from mtkit.extras.tables.rows import Row, read_rows
from mtkit.extras.tables.sheets import choose_sheet, read_sheet
from mtkit.extras.tables.tables import (
    describe_columns,
    describe_keys,
    find_columns,
    find_keys,
    has_several_texts,
    read_keys_and_values,
    read_records,
    read_table,
)
from mtkit.extras.tables.tmx import find_languages, read_tmx
from mtkit.extras.tables.translated_table import (
    CellTable,
    WorkbookTable,
    open_cells,
    open_records,
    read_exactly,
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
    importer = find_importer(str(files[0]), sheet) if len(files) == 1 else None
    if importer is None:
        raise UserError("--columns needs one table, which has references and translations")
    path = str(files[0])
    reference, system = (f"column {name}" for name in columns)
    references: list[str] = []
    translations: list[str] = []
    rows = importer.read(path, importer.choose_columns(path, columns, None))
    for _file, _row, reference_text, translation in rows:
        references.append(normalise(reference_text))
        translations.append(normalise(translation))
    return {reference: references}, {system: translations}


class TabTable(Importer):
    """A table with tabs between its cells (`.tsv`)."""

    def open_rows(self, path: str, columns: Iterable[str | int] = ()) -> Generator[Row]:
        """Yield the rows; errors are as in `read_rows`. Columns can choose a sheet."""
        with closing(read_lines(path)) as lines:
            yield from read_rows(path, (f"{line}\n" for line in lines))

    def read(self, path: str, columns: Columns) -> Texts:
        with closing(self.open_rows(path, columns)) as rows:
            yield from read_table(path, columns, rows)

    def choose_columns(
        self, path: str, columns: tuple[str, str] | None, languages: tuple[str, str] | None
    ) -> Columns:
        if columns is None:
            return self.find_columns(path)
        source, target = columns
        return parse_column(source), parse_column(target)

    def find_columns(self, path: str) -> Columns:
        """Return the columns that hold text; raise UserError if the choice is not clear."""
        with closing(self.open_rows(path)) as rows:
            return find_columns(path, rows)

    def has_both_sides(self, path: str) -> bool:
        with closing(self.open_rows(path)) as rows:
            return Path(path).is_file() and has_several_texts(rows)

    def read_cells(self, path: str, comment: str) -> Iterator[tuple[int, list[str]]] | None:
        return None

    def check_translation(self, path: str, column: str | None, output: Path | None) -> None:
        if column is None and Path(path).is_file():
            raise UserError(
                f"{path} is a table; choose the column to translate with --columns: "
                f"{self.describe_columns(path)}"
            )
        if column is not None and output is not None:
            self.check_output(path, output)

    def describe_columns(self, path: str) -> str:
        """Return the columns for messages, and how to translate the file as text."""
        with closing(self.open_rows(path)) as rows:
            return f"{describe_columns(path, rows)} (to translate its lines as text: < {path})"

    def check_output(self, path: str, output: Path, *suffixes: str) -> None:
        """Raise UserError if the output has the name of another kind of table.

        `suffixes`: how such names may end (default: as that of the input).
        """
        allowed = suffixes or (suffix_of(path),)
        if find_importer(output.name) is not None and suffix_of(output.name) not in allowed:
            raise UserError(f"{output}: the output is a {' or '.join(allowed)}; choose such a name")

    def open_column(self, path: str, column: str, output: Path | None) -> Any:
        return open_cells(
            CellTable,
            path=path,
            column=parse_column(column),
            open_rows=partial(read_exactly, path),
        )


class QuotedTable(TabTable):
    """A table as spreadsheets write it, with quotes around some cells (`.csv`)."""

    counts_rows: ClassVar[bool] = True

    def read_cells(self, path: str, comment: str) -> Iterator[tuple[int, list[str]]]:
        with closing(self.open_rows(path)) as rows:
            for row in rows:
                # Quotes tell a term such as "#1 fan" from a comment, except in a spreadsheet.
                start = "".join(row.cells[:1]) if self.has_sheets else row.raw
                if not start.lstrip().startswith(comment):
                    yield row.number, row.cells or [""]


class RecordFile(TabTable):
    """A JSON object in each line (`.jsonl`)."""

    def read(self, path: str, columns: Columns) -> Texts:
        return read_records(path, columns)

    def find_columns(self, path: str) -> Columns:
        return find_keys(path)

    def has_both_sides(self, path: str) -> bool:
        return Path(path).is_file()

    def read_cells(self, path: str, comment: str) -> Iterator[tuple[int, list[str]]] | None:
        return read_keys_and_values(path)

    def describe_columns(self, path: str) -> str:
        return f"{describe_keys(path)} (to translate its lines as text: < {path})"

    def open_column(self, path: str, column: str, output: Path | None) -> Any:
        return open_records(path, column)


class Spreadsheet(QuotedTable):
    """A sheet of a workbook, such as an `.xlsx`."""

    has_sheets: ClassVar[bool] = True

    def open_rows(self, path: str, columns: Iterable[str | int] = ()) -> Generator[Row]:
        with closing(read_sheet(path, choose_sheet(path, self.sheet, columns))) as lines:
            yield from read_rows(path, lines)

    def has_both_sides(self, path: str) -> bool:
        return False

    def describe_columns(self, path: str) -> str:
        with closing(self.open_rows(path)) as rows:
            return describe_columns(path, rows)

    def check_output(self, path: str, output: Path, *suffixes: str) -> None:
        can_be_copied = suffix_of(path) in COPIED_SUFFIXES
        super().check_output(path, output, ".csv", *([COPY] if can_be_copied else []))
        if suffix_of(output.name) == COPY and find_spec("openpyxl") is None:
            raise UserError(
                f"{output}: for this, first run: pip install 'mtkit[sheets]'; or choose a .csv"
            )

    def open_column(self, path: str, column: str, output: Path | None) -> Any:
        number = parse_column(column)
        open_rows = partial(self.open_rows, path, [number])
        if output is None or suffix_of(output.name) != COPY:
            return open_cells(
                CellTable,
                path=path,
                column=number,
                open_rows=open_rows,
            )
        table = open_cells(
            WorkbookTable,
            path=path,
            column=number,
            open_rows=open_rows,
        )
        table.sheet = choose_sheet(path, self.sheet, [number])
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
        if named is not None:
            source, target = named
            return parse_column(source), parse_column(target)
        source, target = find_languages(path)
        say(f"{path}: reading {source} as source and {target} as target")
        return source, target

    def languages_of(self, columns: Columns) -> tuple[str | None, str | None]:
        source, target = map(str, columns)
        return find_language(source), find_language(target)

    def check_translation(self, path: str, column: str | None, output: Path | None) -> None:
        refuse_name(path)

    def open_column(self, path: str, column: str, output: Path | None) -> Any:
        refuse_name(path)
