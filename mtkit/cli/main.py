"""The command line. `main` is the one place where exceptions become exit codes.

Exit codes: 0 is success; 1 is a failure while the command runs; 2 is an error that the user can
fix, reported before any work; 129, 130 and 143 mean stopped by SIGHUP, Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

import typer

from mtkit import report
from mtkit.artifacts.manifest import VERSION
from mtkit.cli.options import add_command
from mtkit.errors import MtkitError, is_out_of_memory
from mtkit.signals import exit_on_stop_signals

# Pydantic would look for plugins in the metadata of every installed package at each start.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("run", "train-spm", "batch", "train"), "stages"),
    **dict.fromkeys(("check", "init"), "preparation"),
    **dict.fromkeys(("finish", "translate"), "stages"),
    **dict.fromkeys(("score", "attend", "export", "info", "compare"), "studies"),
}
"""The module of each command, in the order of --help."""
BENCH = ("train", "translate", "layers")


def app(*names: str) -> typer.Typer:
    """Return the command line with these commands, or with all."""
    app = typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(mtkit)
    for name in names or COMMANDS:
        module = import_module(f"mtkit.cli.{COMMANDS[name]}")
        add_command(app, name, getattr(module, name.replace("-", "_")))
    if not names:
        bench = typer.Typer(
            rich_markup_mode=None, help="Measure how fast this machine trains and translates."
        )
        for name in BENCH:
            add_command(bench, name, getattr(import_module("mtkit.cli.benchmarks"), name))
        app.add_typer(bench, name="bench")
    return app


def _print_version(requested: bool) -> bool:
    if requested:
        report.data(f"mtkit {VERSION}\n")
        raise typer.Exit
    return requested


def mtkit(
    version: bool = typer.Option(
        False, "-V", "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Train translation models and translate with them.

    To train on your own corpus, start with `mtkit init`. To try the demo, use `mtkit run --demo`,
    and then: echo "It is raining." | mtkit translate
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and exit with its code, and with one line on stderr if it failed."""
    # A closed stream is None. Then messages are dropped, but writing data is an error.
    sys.stdout = sys.stdout or open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    stop = exit_on_stop_signals()
    code = 0
    try:
        names = arguments[:1] if arguments and arguments[0] in COMMANDS else []
        run = app(*names)  # only the requested command, to start faster
        code = run(args=arguments or ["--help"], prog_name="mtkit", standalone_mode=False) or 0
    except SystemExit:
        if not stop.received:
            raise
    except Exception as error:
        if not stop.received:  # otherwise a library turned the exit into another error
            line, code = _describe_failure(error)
            report.error(line, error)
    code = 128 + stop.received if stop.received else code
    report.drop_unwritable()
    if stop.received or "RANK" in os.environ:
        # Threads that still translate can abort an interpreter that shuts down. So can threads of
        # gloo, which torch never frees after DistributedDataParallel.
        os._exit(code)
    sys.exit(code)


def _describe_failure(error: Exception) -> tuple[str, int]:
    """Return what went wrong, in one line, and the exit code."""
    match error:
        case MtkitError():
            return str(error), error.exit_code
        case typer.TyperException():
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "mtkit"
            return f"{command}: {_describe_usage(error)}; see `{command} --help`", error.exit_code
        case UnicodeEncodeError(object=text, start=at):  # of a path, as other text is replaced
            return f"the name {text[max(0, at - 20) : at + 5]!r} is not UTF-8; rename the file", 2
        case OSError(strerror=str(reason)):
            return f"{error.filename or 'input or output'}: {reason}", 1
        case MemoryError() | RuntimeError() | ImportError() if is_out_of_memory(error):
            advice = "lower batching.max_tokens, or decoding.batch_tokens and beam"
            return f"out of memory; {advice}, or raise the limit of this process", 1
    if number := re.search(r"\(os error (\d+)\)", str(error)):  # from a library written in Rust
        return f"input or output: {os.strerror(int(number[1]))}", 1
    name = type(error).__name__
    return f"internal error: {name}: {error}; rerun with --debug for the traceback", 1


def _describe_usage(error: typer.TyperException) -> str:
    """Return the message of a usage error, in the style of mtkit's messages."""
    from pydantic import ValidationError

    from mtkit.config.base import error_message

    text, cause = error.format_message(), error.__cause__
    if isinstance(cause, ValidationError):
        text = text.replace(error.message, error_message(cause.errors(include_url=False)[0]))
    return f"{text[0].lower()}{text[1:]}".replace(". Did", "; did").rstrip(".")
