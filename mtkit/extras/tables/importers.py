"""The importers of this extra: tables, spreadsheets and translation memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from mtkit.config.language_codes import find_language
from mtkit.corpus.columns import Columns
from mtkit.corpus.files import refuse_name
from mtkit.corpus.importers import Importer, Texts
from mtkit.errors import UserError
from mtkit.extras.tables.rows import Row
from mtkit.extras.tables.tables import (
    describe_columns,
    find_columns,
    has_several_texts,
    open_rows,
    parse_column,
    read_keys_and_values,
    read_table,
)
from mtkit.extras.tables.tmx import find_languages, read_tmx
from mtkit.extras.tables.translated_table import check_output_name, open_table
from mtkit.report import say


def _read_uncommented(
    path: str, begin: Callable[[Row], str], comment: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each row whose beginning is no comment."""
    with closing(open_rows(path)) as rows:
        for row in rows:
            if not begin(row).lstrip().startswith(comment):
                yield row.number, row.cells or [""]


class TabTable(Importer):
    """A table with tabs between its cells (`.tsv`)."""

    def read(self, path: str, columns: Columns) -> Texts:
        return read_table(path, columns)

    def choose_columns(
        self, path: str, columns: tuple[str, str] | None, languages: tuple[str, str] | None
    ) -> Columns:
        if columns is None:
            return find_columns(path)
        source, target = columns
        return parse_column(source), parse_column(target)

    def has_both_sides(self, path: str) -> bool:
        return Path(path).is_file() and has_several_texts(path)

    def read_cells(self, path: str, comment: str) -> Iterator[tuple[int, list[str]]] | None:
        return None

    def check_input(self, path: str, column: str | None) -> None:
        if column is None and Path(path).is_file():
            raise UserError(
                f"{path} is a table; choose the column to translate with --columns: "
                f"{describe_columns(path)}{self._describe_way_as_text(path)}"
            )

    def _describe_way_as_text(self, path: str) -> str:
        return f" (to translate its lines as text: < {path})"

    def check_output(self, path: str, output: Path) -> None:
        check_output_name(path, output)

    def open_column(self, path: str, column: str) -> Any:
        return open_table(path, parse_column(column))


class QuotedTable(TabTable):
    """A table as spreadsheets write it, with quotes around some cells (`.csv`)."""

    counts_rows: ClassVar[bool] = True

    def read_cells(self, path: str, comment: str) -> Iterator[tuple[int, list[str]]] | None:
        # Quotes tell a term such as "#1 fan" from a comment.
        return _read_uncommented(path, lambda row: row.raw, comment)


class RecordFile(TabTable):
    """A JSON object in each line (`.jsonl`)."""

    def read_cells(self, path: str, comment: str) -> Iterator[tuple[int, list[str]]] | None:
        return read_keys_and_values(path)


class Spreadsheet(TabTable):
    """A sheet of a workbook, such as an `.xlsx`."""

    counts_rows: ClassVar[bool] = True

    def has_both_sides(self, path: str) -> bool:
        return False

    def read_cells(self, path: str, comment: str) -> Iterator[tuple[int, list[str]]] | None:
        return _read_uncommented(path, lambda row: "".join(row.cells[:1]), comment)

    def _describe_way_as_text(self, path: str) -> str:
        return ""


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

    def check_input(self, path: str, column: str | None) -> None:
        refuse_name(path)

    def check_output(self, path: str, output: Path) -> None:
        refuse_name(path)

    def open_column(self, path: str, column: str) -> Any:
        refuse_name(path)
