"""Read `.jsonl` files, which have a JSON object in each line, and translate texts of the objects.

The keys are columns; a column of a nested record has a dot in its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mtkit.corpus.columns import Columns, is_column_name, name_cells, text_at, values_by_column
from mtkit.corpus.files import read_lines
from mtkit.corpus.importers import Texts
from mtkit.corpus.text import in_one_line
from mtkit.errors import UserError
from mtkit.extras.tables.importers import TabTable
from mtkit.extras.tables.rows import SAMPLE_ROWS
from mtkit.extras.tables.translated_table import (
    Entry,
    Table,
    byte_order_mark,
    exact_lines,
    name_new_column,
    readable,
)
from mtkit.report import say


class RecordFile(TabTable):
    """A JSON object in each line (`.jsonl`)."""

    def read(self, path: str, columns: Columns) -> Texts:
        source, target = map(str, columns)
        for number, _, record in _read_records(path, read_lines(path)):
            where = f"{path}:{number}"
            source_text = text_at(record, source, where)
            target_text = text_at(record, target, where)
            yield path, number, source_text, target_text

    def find_columns(self, path: str) -> Columns:
        """Return the only two keys with texts; raise UserError if there are others."""
        values = _read_first(path)
        texts: list[str] = []
        for key, value in values.items():
            if isinstance(value, str) and value.strip():
                texts.append(key)
        if len(texts) != 2:
            keys = name_cells(values)
            raise UserError(
                f"{path}: give the keys of source and target with --columns S T: {keys}"
            )
        source, target = texts
        say(f"{path}: reading keys '{source}' and '{target}'")
        return source, target

    def has_both_sides(self, path: str) -> bool:
        return Path(path).is_file()

    def read_cells(self, path: str, comment: str) -> Iterator[tuple[int, list[str]]]:
        """Yield the keys of the objects if they name languages, then all values.

        The keys are those of the first SAMPLE_ROWS objects. A list becomes a cell with a line for
        each item.

        Raises:
            UserError: a line is no object, or a value neither a text, a number nor a list of these.
        """
        objects = _read_values(path)
        sample = list(islice(objects, SAMPLE_ROWS))
        names = dict.fromkeys(name for _, values in sample for name in values)
        # Only the last part may name a language.
        header = [name.rpartition(".")[2] for name in names]
        if sum(map(is_column_name, header)) > 1:
            yield 1, header
        for number, values in chain(sample, objects):
            cells: list[str] = []
            for name in names:
                cells.append(_cell_of(values.get(name), f"{path}:{number}: {name}"))
            yield number, cells

    def column_names(self, path: str) -> Iterable[str]:
        return _read_first(path)

    def open_column(self, path: str, column: str, output: Path | None) -> Table:
        keys: set[str] = set()
        row_count = 0
        for row_count, _, record in _read_records(path, exact_lines(path)):
            text_at(record, column, f"{path}:{row_count}")  # raises UserError without such a key
            keys.update(record or ())
        return RecordTable(
            path=path,
            mark=byte_order_mark(path),
            rows=row_count,
            name=name_new_column(keys),
            key=column,
        )


@dataclass
class RecordTable(Table):
    """A `.jsonl` of which one key is translated."""

    key: str

    def _entries(self) -> Iterator[Entry]:
        for number, line, record in _read_records(self.path, exact_lines(self.path)):
            if record is None:
                yield Entry(line)
                continue
            text = text_at(record, self.key, f"{self.path}:{number}")
            # The new key comes before the last brace. Everything else keeps its bytes.
            content = line.rstrip().removesuffix("}")
            yield Entry(
                before=f"{content}, {json.dumps(self.name)}: ",
                after=line.removeprefix(content),
                text=in_one_line(readable(text)),
            )

    def _cell(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False)


def _read_records(path: str, lines: Iterable[str]) -> Iterator[tuple[int, str, Any]]:
    """Yield the lines with their numbers and objects; None is the object of a blank line."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            yield number, line, None
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = f"{path}:{number}: not JSON ({error})"
            raise UserError(f"{problem}; each line must be a JSON object") from None
        yield number, line, record


def _cell_of(value: Any, where: str) -> str:
    """Return a value as the text of a cell; of a missing one, a blank text."""
    items = value if isinstance(value, list) else [value]
    lines: list[str] = []
    for item in items:
        if not isinstance(item, str | int | float | None):
            raise UserError(f"{where} is neither a text nor a list of texts")
        if item is not None:
            lines.append(str(item))
    return "\n".join(lines)


def _read_first(path: str) -> Mapping[str, Any]:
    """Return the values of the first object; of a file of blank lines, none."""
    return next((values for _, values in _read_values(path)), {})


def _read_values(path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the number of each line that is not blank, and the values of its object by column."""
    for number, _, record in _read_records(path, read_lines(path)):
        if record is None:
            continue
        if not isinstance(record, Mapping):
            where = f"{path}:{number}"
            raise UserError(f'{where}: not an object, such as {{"en": "dog", "de": "Hund"}}')
        yield number, values_by_column(record)
