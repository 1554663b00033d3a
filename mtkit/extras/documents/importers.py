"""Bilingual documents as corpora: `.po` and XLIFF."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, NoReturn

from mtkit.corpus.columns import Columns
from mtkit.corpus.importers import Importer, Texts
from mtkit.errors import UserError
from mtkit.extras.documents.formats import find_format, read_parts


class BilingualDocument(Importer):
    """A document with texts and their translations."""

    counts_rows: ClassVar[bool] = True

    def read(self, path: str, columns: Columns) -> Texts:
        form = find_format(path)
        if form is None:
            raise UserError(f"{path}: a packed document cannot be read; unpack it")
        number = 0
        for part in read_parts(path, form).values():
            for unit in part.units:
                if not (any(unit.translations) and unit.is_reviewed):
                    continue
                # Of a plural, the first form is that of the number 1.
                forms = (unit.translations[0], unit.translations[-1])
                for text, translation in zip(unit.texts, forms, strict=False):
                    number += 1
                    yield path, number, text, translation

    def choose_columns(
        self, path: str, columns: tuple[str, str] | None, languages: tuple[str, str] | None
    ) -> Columns:
        if columns is not None:
            raise UserError(f"{path}: has texts and translations, and no columns")
        return 0, 1

    def has_both_sides(self, path: str) -> bool:
        return True

    def check_translation(self, path: str, column: str | None, output: Path | None) -> None:
        if column is not None:
            self.open_column(path, column, output)

    def open_column(self, path: str, column: str, output: Path | None) -> NoReturn:
        raise UserError(f"{path}: is a document, and no table; leave out --columns")
