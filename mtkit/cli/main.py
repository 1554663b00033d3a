"""The command line. `main` is the one place where exceptions become exit codes.

0 done; 1 failed while running; 2 the user can mend it before any work; 130, 143 and 129 stopped by
Ctrl-C, SIGTERM and SIGHUP.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from io import TextIOWrapper
from types import FrameType
from typing import NoReturn

import typer

from mtkit import report
from mtkit.artifacts.manifest import VERSION
from mtkit.cli.bench import bench
from mtkit.cli.corpora import check, init
from mtkit.cli.options import Command, LongCommand
from mtkit.cli.stages import STAGES, finish, stage_of, translate
from mtkit.cli.studies import attend, compare, export, info, score
from mtkit.errors import MtkitError, is_out_of_memory
from mtkit.training.launcher import MOMENT, SIGNALS, follow, hand_over

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, (places, text) in STAGES.items():
    app.command(name, cls=LongCommand, help=text)(stage_of(places))
for command in (check, init, finish, translate, score, attend, export, info, compare):
    app.command(cls=Command if command in (score, info, compare) else LongCommand)(command)
app.add_typer(bench, name="bench")


def _show_version(asked: bool) -> bool:
    if asked:
        report.data(f"mtkit {VERSION}\n")
        raise typer.Exit
    return asked


@app.callback()
def mtkit(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Machine translation: train-spm, batch and train make a model, or run does all three at once.

    Without a config they work on the demo. Then: echo "It is raining." | mtkit translate
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs one command; ends with its exit code, and with one line on stderr where it failed."""
    # Closed ones are None; what is said then goes nowhere.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    arguments = sys.argv[1:] if arguments is None else arguments
    told: list[int] = []
    since = 0.0

    def leave(number: int, frame: FrameType | None) -> None:
        """What is half done is cleared away on the way out; who asks again has waited enough."""
        nonlocal since
        if not told:
            told.append(128 + number)
            since = time.monotonic()
            sys.exit(told[0])
        if time.monotonic() - since > MOMENT:
            os._exit(told[0])

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell leaves Ctrl-C to `&`
            signal.signal(number, leave)
    follow()
    code = 0
    try:
        code = app(args=arguments or ["--help"], prog_name="mtkit", standalone_mode=False) or 0
    except SystemExit:
        if not told:
            raise
    except Exception as error:
        if not told:  # else a library that was being imported made an error of the way out
            line, code = _verdict(error)
            report.error("" if hand_over(line, code) else line, error)
    code = told[0] if told else code
    report.drop_unwritable()
    if told or "RANK" in os.environ:
        # What still translates, or threads of gloo, which torch never frees once a
        # DistributedDataParallel had them, can abort an interpreter that is shutting down.
        os._exit(code)
    sys.exit(code)


def _verdict(error: Exception) -> tuple[str, int]:
    """What went wrong, in one line, and the exit code."""
    match error:
        case MtkitError():
            return str(error), error.exit_code
        case typer.TyperException():
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "mtkit"
            return f"{command}: {_in_words(error)} (see {command} --help)", error.exit_code
        case OSError(strerror=str(reason)):
            return f"{error.filename or 'input or output'}: {reason}", 1
        case MemoryError() | RuntimeError() if is_out_of_memory(error):
            return "out of memory: lower batching.max_tokens, or decoding.batch_tokens and beam", 1
    if number := re.search(r"\(os error (\d+)\)", str(error)):  # of a library written in Rust
        return f"input or output: {os.strerror(int(number[1]))}", 1
    name = type(error).__name__
    return f"internal error: {name}: {error}: rerun with --debug for the traceback", 1


def _in_words(error: typer.TyperException) -> str:
    """What typer complains of, with what was found where pydantic judged it."""
    from pydantic import ValidationError

    from mtkit.config.base import first_complaint

    text, cause = error.format_message(), error.__cause__
    if isinstance(cause, ValidationError):
        text = text.replace(error.message, first_complaint(cause)[1])
    return text
