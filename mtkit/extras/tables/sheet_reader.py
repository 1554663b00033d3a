"""A program that reads and writes workbooks. `mtkit.extras.tables.sheets` starts it.

It is a process of its own, because a hostile file can make the parser need any amount of memory, or
end the process. It imports nothing of mtkit, so that it starts fast.

Usage: sheet_reader.py FILE sheets [NAME]: print the rows of all sheets, or of one, as JSON.
       sheet_reader.py FILE add NAME SOURCE WIDTH: print a copy of an .xlsx with a new column.
"""

from __future__ import annotations

import copy
import datetime
import json
import resource
import sys
from contextlib import suppress
from typing import Any

PROCESS_LIMITS = {
    resource.RLIMIT_AS: 2 << 30,  # bytes of memory
    resource.RLIMIT_FSIZE: 2 << 30,  # bytes of output
    resource.RLIMIT_CPU: 600,  # seconds
    resource.RLIMIT_CORE: 0,
}
"""Limits of the process, which a large sheet of sentences is far from."""
MAX_CELL_CHARACTERS = 100_000
MAX_ROWS = 1 << 20
"""Largest number of rows, as in a spreadsheet; a small file can claim to have any number."""
MAX_COLUMNS = 1 << 14


def print_sheets(path: str, wanted: str = "") -> None:
    """Print the rows of each visible sheet as JSON, each a list of texts, and then its name.

    With the name come the numbers of rows that have several texts, and that have any; numbers and
    dates are none. `wanted`: the only sheet whose rows are printed, if it is not blank. Blank rows
    and columns are printed, as both count in a spreadsheet.
    """
    from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    encode = json.JSONEncoder(ensure_ascii=False).encode
    with CalamineWorkbook.from_path(path) as workbook:
        visible: list[str] = []
        for metadata in workbook.sheets_metadata:
            is_visible = metadata.visible == SheetVisibleEnum.Visible
            if is_visible and metadata.typ == SheetTypeEnum.WorkSheet:
                visible.append(metadata.name)
        if not visible:
            raise ValueError("it has no visible sheet")
        for name in visible:
            rows = rows_of(workbook.get_sheet_by_name(name)) if wanted in ("", name) else []
            pairs = 0
            texts = 0
            for row in rows:
                count = sum(isinstance(value, str) and value.strip() != "" for value in row)
                pairs += count > 1
                texts += count > 0
                sys.stdout.write(encode([text_of(value) for value in row]) + "\n")
            sys.stdout.write(encode({"name": name, "pairs": pairs, "texts": texts}) + "\n")


def rows_of(sheet: Any) -> list[list[Any]]:
    """Return the rows of a sheet, unless it has more than a spreadsheet."""
    if sheet.total_height > MAX_ROWS or sheet.total_width > MAX_COLUMNS:
        size = f"{sheet.total_height:,} rows and {sheet.total_width:,} columns"
        raise ValueError(f"it has {size}, more than a spreadsheet")
    rows: list[list[Any]] = sheet.to_python(skip_empty_area=False)
    return rows


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
    column = int(width) + 1
    while column in merged:
        column += 1
    if column > MAX_COLUMNS:
        raise ValueError("it has no free column for the translations")
    letter = get_column_letter(column)
    source_letter = get_column_letter(int(source))
    formats = sheet.column_dimensions
    formats[letter].width = formats[source_letter].width
    for line in sys.stdin:
        row, text = json.loads(line)
        cell = sheet.cell(row, column)
        cell.value = ILLEGAL_CHARACTERS_RE.sub("", text)
        cell.data_type = "s"  # a text, also if it begins with "="
        source_cell = sheet[f"{source_letter}{row}"]
        cell._style = copy.copy(source_cell._style)
    workbook.save(sys.stdout.buffer)


def text_of(value: Any) -> str:
    """Return a value as a spreadsheet shows it without a number format."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ").removesuffix(" 00:00:00")
    text = str(value)
    if len(text) > MAX_CELL_CHARACTERS:  # a spreadsheet program allows 32,767
        raise ValueError(f"a cell has over {MAX_CELL_CHARACTERS:,} characters")
    return text


def _run() -> int:
    """Run the program, and return its exit status; the reason of a failure goes to stderr."""
    for kind, limit in PROCESS_LIMITS.items():
        with suppress(ValueError):  # the limit of the user is lower
            resource.setrlimit(kind, (limit, limit))
    sys.stdout.reconfigure(encoding="utf-8", errors="replace", newline="")  # type: ignore[union-attr]
    path, command, *arguments = sys.argv[1:]
    try:
        if command == "sheets":
            print_sheets(path, *arguments)
        else:
            print_with_column(path, *arguments)
        sys.stdout.flush()
    except BaseException as error:  # the parser's panics are no Exceptions
        first_line, _, _ = str(error).partition("\n")
        sys.stderr.write(f"{first_line or type(error).__name__}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_run())
