"""A program that prints a sheet of a spreadsheet as CSV. `mtkit.extras.tables.sheets` starts it.

It is a process of its own, because a hostile file can make the parser need any amount of memory, or
end the process. It imports nothing of mtkit, so that it starts fast.

Usage: sheet_reader.py FILE ROWS: print a line of JSON for each sheet: its name and first rows.
       sheet_reader.py FILE ROWS NAME: print a sheet as CSV, with quotes around every cell.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import resource
import sys
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


def main(path: str, sample_rows: str, name: str | None = None) -> None:
    """Print the names of the sheets and the first rows of some, or the sheet `name`."""
    from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    with CalamineWorkbook.from_path(path) as workbook:
        if name is not None:
            writer = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL)
            for row in rows_of(workbook, name):
                writer.writerow([text_of(value) for value in row])
            return
        names: list[str] = []
        for sheet in workbook.sheets_metadata:
            is_visible = sheet.visible == SheetVisibleEnum.Visible
            if is_visible and sheet.typ == SheetTypeEnum.WorkSheet:
                names.append(sheet.name)
        for number, name in enumerate(names):
            is_sampled = len(names) > 1 and number < MAX_SHEETS  # one sheet leaves no choice
            rows = rows_of(workbook, name, int(sample_rows)) if is_sampled else []
            texts = [[text_of(value) for value in row] for row in rows]
            sys.stdout.write(json.dumps([name, texts]) + "\n")


def rows_of(workbook: Any, name: str, count: int | None = None) -> list[list[Any]]:
    """Return the rows of a sheet with blank rows and columns, as both count in a spreadsheet."""
    sheet = workbook.get_sheet_by_name(name)
    if sheet.total_height > MAX_ROWS:
        raise ValueError(f"it has {sheet.total_height:,} rows, and a sheet at most {MAX_ROWS:,}")
    rows: list[list[Any]] = sheet.to_python(skip_empty_area=False, nrows=count)
    return rows


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


def _run() -> int:
    """Run the program, and return its exit status; the reason of a failure goes to stderr."""
    for kind, limit in PROCESS_LIMITS.items():
        _, hard_limit = resource.getrlimit(kind)
        if hard_limit == resource.RLIM_INFINITY or limit < hard_limit:
            resource.setrlimit(kind, (limit, limit))
    sys.stdout.reconfigure(encoding="utf-8", errors="replace", newline="")  # type: ignore[union-attr]
    try:
        main(*sys.argv[1:])
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
