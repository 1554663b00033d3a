"""Read `.jsonl` files, which have a JSON object in each line; its keys are columns."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from itertools import chain, islice
from typing import Any

from mtkit.corpus.columns import Columns, is_column_name, name_cells, text_at
from mtkit.corpus.files import read_lines
from mtkit.corpus.importers import Texts
from mtkit.errors import UserError
from mtkit.extras.tables.rows import SAMPLE_ROWS
from mtkit.report import say


def parse_record(line: str, where: str) -> Any:
    """Return the object of a line of a .jsonl; None if the line is blank."""
    if not line.strip():
        return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error}); each line must be a JSON object") from None


def read_records(path: str, columns: Columns) -> Texts:
    """Yield the texts of each object of a .jsonl, and blank texts for a blank line.

    Raises:
        UserError: an object has no such keys.
    """
    source, target = columns
    if not (isinstance(source, str) and isinstance(target, str)):
        raise UserError(f"{path}: the columns of a .jsonl are keys of its objects, not {columns}")
    with closing(read_lines(path)) as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            record = parse_record(line, where)
            source_text = text_at(record, source, where)
            target_text = text_at(record, target, where)
            yield path, number, source_text, target_text


def find_keys(path: str) -> tuple[str, str]:
    """Return the only two keys of a .jsonl with texts; raise UserError if it has others."""
    values = _read_first(path)
    texts: list[str] = []
    for key, value in values.items():
        if isinstance(value, str) and value.strip():
            texts.append(key)
    if len(texts) != 2:
        keys = name_cells(values)
        raise UserError(f"{path}: give the keys of source and target with --columns S T: {keys}")
    source, target = texts
    say(f"{path}: reading keys '{source}' and '{target}'")
    return source, target


def describe_keys(path: str) -> str:
    """Return the keys of the first object of a .jsonl, for messages."""
    return name_cells(_read_first(path))


def read_keys_and_values(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the keys of the objects of a .jsonl if they name languages, then all values.

    Each comes with the number of its line; the keys are those of the first SAMPLE_ROWS objects. A
    list becomes a cell with a line for each item.

    Raises:
        UserError: a line is no object, or a value neither a text, a number nor a list of these.
    """
    objects = _read_values(path)
    sample = list(islice(objects, SAMPLE_ROWS))
    names: dict[str, str] = {}
    """The last part of each name, by the name; only these parts may name languages."""
    for _, values in sample:
        for name in values:
            names[name] = name.rpartition(".")[2]
    if sum(map(is_column_name, names.values())) > 1:
        yield 1, list(names.values())
    for number, values in chain(sample, objects):
        where = f"{path}:{number}"
        yield number, [_cell_of(values.get(name), name, where) for name in names]


def _cell_of(value: Any, name: str, where: str) -> str:
    """Return a value as the text of a cell; of a missing one, a blank text."""
    items = value if isinstance(value, list) else [value]
    lines: list[str] = []
    for item in items:
        if not isinstance(item, str | int | float | None):
            raise UserError(f"{where}: {name} is neither a text nor a list of texts")
        if item is not None:
            lines.append(str(item))
    return "\n".join(lines)


def _read_first(path: str) -> Mapping[str, Any]:
    """Return the values of the first object of a .jsonl; of a file of blank lines, none."""
    with closing(_read_values(path)) as objects:
        return next((values for _, values in objects), {})


def _read_values(path: str) -> Generator[tuple[int, Mapping[str, Any]]]:
    """Yield the number of each line that is not blank, and the values of its object by column.

    A column of a nested record has a dot in its name.
    """
    with closing(read_lines(path)) as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            record = parse_record(line, where)
            if record is None:
                continue
            if not isinstance(record, Mapping):
                raise UserError(f'{where}: not an object, such as {{"en": "dog", "de": "Hund"}}')
            values: dict[str, Any] = {}
            for name, value in record.items():
                if isinstance(value, Mapping):
                    values.update({f"{name}.{inner}": value[inner] for inner in value})
                else:
                    values[name] = value
            yield number, values
