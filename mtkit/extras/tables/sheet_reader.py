"""A program that reads and writes workbooks. `mtkit.extras.tables.sheets` starts it.

It is a process of its own, because a hostile file can make the parser need any amount of memory, or
end the process. It imports nothing of mtkit, so that it starts fast.

Usage: sheet_reader.py FILE sheets N: print a line of JSON for each sheet, with its first N rows.
       sheet_reader.py FILE rows NAME: print a sheet as CSV, with quotes around every cell.
       sheet_reader.py FILE add NAME SOURCE WIDTH: print a copy of an .xlsx with a new column.
"""

from __future__ import annotations

import copy
import csv
import datetime
import io
import itertools
import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

PROCESS_LIMITS = {
    resource.RLIMIT_AS: 2 << 30,  # bytes of memory
    resource.RLIMIT_CPU: 600,  # seconds
    resource.RLIMIT_CORE: 0,
}
"""Limits of the process, which a large sheet of sentences is far from."""
MAX_CELL_CHARACTERS = 100_000
MAX_ROWS = 1 << 20
"""Largest number of rows, as in a spreadsheet; a small file can claim to have any number."""
MAX_SHEETS = 20
"""Number of sheets whose first rows are printed; reading a sheet takes time."""


MAX_COLUMNS = 1 << 14


def print_sheets(path: str, sample_rows: str) -> None:
    """Print for each visible sheet: its name, its first rows, and how many rows have two texts.

    Only the first sheets have rows, because reading a sheet takes time; a single sheet has none,
    because it leaves no choice.
    """
    from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    with CalamineWorkbook.from_path(path) as workbook:
        names: list[str] = []
        for sheet in workbook.sheets_metadata:
            is_visible = sheet.visible == SheetVisibleEnum.Visible
            if is_visible and sheet.typ == SheetTypeEnum.WorkSheet:
                names.append(sheet.name)
        for number, name in enumerate(names):
            texts: list[list[str]] = []
            pairs = 0
            if len(names) > 1 and number < MAX_SHEETS and int(sample_rows):
                sheet = open_sheet(workbook, name)
                for row in sheet.to_python(skip_empty_area=False, nrows=int(sample_rows)):
                    texts.append(texts_of(row))
                for row in sheet.iter_rows():
                    pairs += has_two_texts(row)
            line = json.dumps([name, texts, pairs])
            sys.stdout.write(f"{line}\n")


def print_rows(path: str, name: str) -> None:
    """Print a sheet with its blank rows and columns, as both count in a spreadsheet."""
    from python_calamine import CalamineWorkbook

    with CalamineWorkbook.from_path(path) as workbook:
        writer = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL)
        for row in open_sheet(workbook, name).to_python(skip_empty_area=False):
            writer.writerow(texts_of(row))


def print_with_column(path: str, name: str, source: str, width: str) -> None:
    """Print a copy of a workbook with new cells, which standard input names.

    Each line of standard input is the number of a row, from 1, and a text, as JSON. `source`: the
    number of the column, from 1, whose format the new column has. `width`: how many columns of the
    sheet may have cells.
    """
    from openpyxl import load_workbook
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.utils import get_column_letter

    workbook = load_workbook(path, rich_text=True)
    sheet = workbook[name]
    merged: set[int] = set()
    for area in sheet.merged_cells.ranges:
        merged.update(range(area.min_col, area.max_col + 1))
    free = (number for number in itertools.count(int(width) + 1) if number not in merged)
    column = next(free)
    if column > MAX_COLUMNS:
        raise ValueError("it has no free column for the translations")
    source_format, new_format = (
        sheet.column_dimensions[get_column_letter(number)] for number in (int(source), column)
    )
    new_format.width = source_format.width
    for line in sys.stdin:
        row, text = json.loads(line)
        cell = sheet.cell(row, column)
        cell.value = ILLEGAL_CHARACTERS_RE.sub("", text)
        cell.data_type = "s"  # a text, also if it begins with "="
        cell._style = copy.copy(sheet.cell(row, int(source))._style)
    content = io.BytesIO()
    workbook.save(content)
    sys.stdout.buffer.write(content.getvalue())


def open_sheet(workbook: Any, name: str) -> Any:
    """Return a sheet, unless it has more rows than a spreadsheet."""
    sheet = workbook.get_sheet_by_name(name)
    if sheet.total_height > MAX_ROWS:
        raise ValueError(f"it has {sheet.total_height:,} rows, and a sheet at most {MAX_ROWS:,}")
    return sheet


def has_two_texts(row: list[Any]) -> bool:
    """Return whether several cells of a row hold text."""
    texts = [value for value in row if isinstance(value, str) and value.strip()]
    return len(texts) > 1


def texts_of(row: list[Any]) -> list[str]:
    """Return the cells of a row as text."""
    return [text_of(value) for value in row]


def text_of(value: Any) -> str:
    """Return a value as a spreadsheet shows it without a number format."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime):
        is_midnight = value.time() == datetime.time()
        return value.date().isoformat() if is_midnight else value.isoformat(sep=" ")
    text = str(value)
    if len(text) > MAX_CELL_CHARACTERS:  # a spreadsheet program allows 32,767
        raise ValueError(f"a cell has over {MAX_CELL_CHARACTERS:,} characters")
    return text


PRINTERS: dict[str, Callable[..., None]] = {
    "sheets": print_sheets,
    "rows": print_rows,
    "add": print_with_column,
}


def _run() -> int:
    """Run the program, and return its exit status; the reason of a failure goes to stderr."""
    for kind, limit in PROCESS_LIMITS.items():
        _, hard_limit = resource.getrlimit(kind)
        if hard_limit == resource.RLIM_INFINITY or limit < hard_limit:
            resource.setrlimit(kind, (limit, limit))
    sys.stdout.reconfigure(encoding="utf-8", errors="replace", newline="")  # type: ignore[union-attr]
    path, command, *arguments = sys.argv[1:]
    try:
        PRINTERS[command](path, *arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader needs no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except BaseException as error:  # the parser's panics are no Exceptions
        first_line = next(iter(str(error).splitlines()), "")
        sys.stderr.write(f"{first_line or type(error).__name__}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_run())
