"""Draws a terminal in which mtkit describes a run and translates with it.

    python configs/draw_terminal.py RUN PICTURE.svg

The commands really run, and the picture shows what they write.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 92
"""Columns of the terminal."""
SENTENCE = "Two young men in <b>red</b> shirts are playing on the beach."


def draw_session(commands: list[str]) -> str:
    """Run shell commands, and return a picture of them and of what they write, as SVG.

    Raises:
        subprocess.CalledProcessError: a command fails.
    """
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    for command in commands:
        console.print(Text(f"$ {command}", style="bold green"))
        console.print(Text.from_ansi(_run(command)))
    return console.export_svg(title="mtkit", font_aspect_ratio=0.61)


def _run(command: str) -> str:
    """Return what a shell command writes to a terminal of WIDTH columns."""
    # The mtkit of this interpreter comes first.
    search_path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": search_path, "COLUMNS": str(WIDTH)}
    completed = subprocess.run(
        command,
        shell=True,
        check=True,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return completed.stdout


def main(run: str, picture: str) -> None:
    """Draw the session for a run."""
    commands = [
        f"mtkit info {shlex.quote(run)}",
        f'echo "{SENTENCE}" | mtkit translate -m {shlex.quote(run)}',
    ]
    Path(picture).write_text(draw_session(commands), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
