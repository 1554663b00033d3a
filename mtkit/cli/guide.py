"""The command `guide`, which shows the user guide."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument

from mtkit import report
from mtkit.guide.pages import find_page, read_pages, title_of

MAX_CELLS = 100
"""Width of a rendered page, in terminal cells: longer lines are hard to read."""


def guide(
    topic: Annotated[
        str | None,
        Argument(metavar="TOPIC", help="What the page is about (default: list all topics)."),
    ] = None,
) -> None:
    """Show a page of the user guide.

    On a terminal the page is rendered; otherwise its Markdown text is printed.
    Example: mtkit guide training
    """
    if topic is None:
        rows = [(name, title_of(page)) for name, page in read_pages().items()]
        report.data_lines(report.table(rows, left=2))
        return
    page = find_page(topic)
    report.data(_rendered(page) if sys.stdout.isatty() else page)


def _rendered(page: str) -> str:
    """Return the page with headings, tables and commands laid out for this terminal."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    width = min(console.width, MAX_CELLS)
    with console.capture() as captured:
        console.print(Markdown(page, code_theme="ansi_dark"), width=width)
    return captured.get()
