"""Importers read files that hold both sides of a corpus, such as tables. Extras add them.

The end of a file's name tells its format. `find_importer` looks for the format in the registry of
extras (mtkit.plugins).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePath
from typing import Any, ClassVar

from mtkit import plugins
from mtkit.corpus.columns import Columns
from mtkit.corpus.files import without_packing
from mtkit.errors import UserError

Texts = Generator[tuple[str, int, str, str]]
"""The file, row or line, source and target of each pair."""


@dataclass(frozen=True)
class Importer(ABC):
    """Reads the files of one format."""

    sheet: str | None = None
    """The sheet to read; None: the importer chooses one, if the format has sheets."""
    has_sheets: ClassVar[bool] = False
    counts_rows: ClassVar[bool] = False
    """Whether messages number rows instead of lines, because a cell may have several lines."""
    column_option: ClassVar[str] = "--columns"
    """The option that names the columns of source and target."""

    @abstractmethod
    def read(self, path: str, columns: Columns) -> Texts:
        """Yield the texts of each row except a header; a blank row is a blank pair.

        Raises:
            UserError: the file has no such columns, or a row cannot be read.
        """

    @abstractmethod
    def choose_columns(
        self, path: str, columns: tuple[str, str] | None, languages: tuple[str, str] | None
    ) -> Columns:
        """Return the columns that the user has named; else those that hold text.

        `languages`: those of --languages, which some formats have in place of columns.

        Raises:
            UserError: the choice is not clear, or the file cannot be read.
        """

    def languages_of(self, columns: Columns) -> tuple[str | None, str | None]:
        """Return the languages that the names of the columns declare."""
        return None, None

    def has_both_sides(self, path: str) -> bool:
        """Return whether a row holds several texts, so the file cannot be one side of a corpus."""
        return False

    def read_cells(self, path: str, comment: str) -> Iterator[tuple[int, list[str]]] | None:
        """Yield the number and the cells of each row of a glossary, without rows of comments.

        Return None if the core can read the file itself: each line is a row, with tabs between its
        cells. `comment`: the sign that begins a comment.

        Raises:
            UserError: a file of this format has no rows.
        """
        raise UserError(f"{path}: a glossary has rows (source, tab, target); write a .tsv or .csv")

    @abstractmethod
    def check_translation(self, path: str, column: str | None, output: Path | None) -> None:
        """Raise UserError unless the column can be translated into a file with such a name.

        `column`: None if the user has named none. `output`: None stands for standard output.
        """

    @abstractmethod
    def open_column(self, path: str, column: str, output: Path | None) -> Any:
        """Open a file to translate one column; return an `Input` of mtkit.decoding.translate.

        Raises:
            UserError: the file has no such column, or a row cannot be read.
        """


def suffix_of(path: str) -> str:
    """Return how the name of a file ends, such as ".csv"; .gz or .zst after it does not count."""
    return PurePath(without_packing(path.lower())).suffix


def find_importer(path: str, sheet: str | None = None) -> Importer | None:
    """Return what reads files with such a name; None if they are read as lines of text.

    Raises:
        UserError: a sheet is named, but such a file has none.
    """
    suffix = suffix_of(path)
    importer = _load_importer(suffix) if suffix in plugins.find_plugins("importers") else None
    if sheet is None:
        return importer
    if importer is None or not importer.has_sheets:
        raise UserError(f"{path} has no sheets; leave out the name of a sheet, {sheet!r}")
    return replace(importer, sheet=sheet)


@cache
def _load_importer(suffix: str) -> Importer:
    importer: Importer = plugins.load_plugin("importers", suffix)()
    return importer


def name_suffixes() -> str:
    """Return how the names of files with importers end, for messages."""
    *others, last = plugins.find_plugins("importers")
    return f"{', '.join(others)} or {last}"


def place_of(path: str, number: int) -> str:
    """Return the file and the line; of a file whose cells may have line breaks, the row."""
    importer = find_importer(path)
    counts_rows = importer is not None and importer.counts_rows
    return f"{path}, row {number}" if counts_rows else f"{path}:{number}"
