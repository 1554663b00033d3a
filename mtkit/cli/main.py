"""The command line. `main` is the one place where exceptions become exit codes.

Exit codes: 0 is success; 1 is a failure while the command runs; 2 is an error that the user can
fix, reported before any work; 129, 130 and 143 mean stopped by SIGHUP, Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from mtkit import plugins, report
from mtkit.artifacts.manifest import VERSION
from mtkit.cli import guide, models, preparation, stages
from mtkit.cli.options import Command, CommandGroup, with_options
from mtkit.errors import HOW_TO_CONTINUE, MtkitError, is_out_of_memory
from mtkit.signals import exit_on_stop_signals

# Pydantic would look for plugins in the metadata of every installed package at each start.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

Function = Callable[..., None]
COMMANDS: Mapping[str, Function] = {
    "run": stages.run,
    "train-spm": stages.train_spm,
    "batch": stages.batch,
    "train": stages.train,
    "check": preparation.check,
    "init": preparation.init,
    "finish": stages.finish,
    "translate": stages.translate,
    "score": models.score,
    "export": models.export,
    "info": models.info,
    "guide": guide.guide,
}
"""The commands of the core, in the order of --help, which lists those of extras after them."""
CONTINUED = frozenset({"run", "train-spm", "batch", "train", "finish"})
"""Commands that keep what is complete when they are interrupted."""


def build_app(*names: str) -> typer.Typer:
    """Return the command line with the commands `names`; or only a list of all, for help."""
    app = typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(mtkit)
    for name in names or list_commands():
        command = COMMANDS[name] if name in COMMANDS else plugins.load_plugin("commands", name)
        if isinstance(command, CommandGroup):
            group = typer.Typer(rich_markup_mode=None, help=command.help)
            for inner_name, function in command.commands.items():
                group.command(inner_name, cls=Command)(with_options(function))
            app.add_typer(group, name=name)
        else:
            app.command(name, cls=Command)(with_options(command) if names else _list(command))
    return app


def _list(command: Function) -> Function:
    """Return a command without options, which take long to prepare, but with the same help."""

    def listed() -> None:
        raise AssertionError("a command that is only listed was called")

    listed.__doc__ = command.__doc__
    return listed


def list_commands() -> list[str]:
    """Return the names of all commands, in the order of --help."""
    return [*COMMANDS, *plugins.find_plugins("commands")]


def _print_version(requested: bool) -> bool:
    if requested:
        report.data(f"mtkit {VERSION}\n")
        raise typer.Exit
    return requested


def mtkit(
    version: Annotated[
        bool,
        typer.Option(
            "-V", "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Train translation models and translate with them.

    To train on your own corpus, start with `mtkit init`. To try the demo, use `mtkit run --demo`,
    and then: echo "It is raining." | mtkit translate

    `mtkit guide` lists the pages of the user guide.
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and exit with its code; if it failed, first write one line to stderr."""
    _prepare_streams()
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    stop = exit_on_stop_signals()
    code = 0
    try:
        app = build_app(*_find_command(arguments))
        code = app(args=arguments or ["--help"], prog_name="mtkit", standalone_mode=False) or 0
    except SystemExit:
        if not stop.received:
            raise
    except Exception as error:
        if not stop.received:  # otherwise a library turned the exit into another error
            line, code = _describe_failure(error)
            report.error(line, error)
    if stop.received:
        code = 128 + stop.received
        if arguments[:1] and arguments[0] in CONTINUED:
            report.say(HOW_TO_CONTINUE)
    report.drop_unwritable()
    if stop.received or "RANK" in os.environ:
        # Threads that still translate can abort an interpreter that shuts down. So can threads of
        # gloo, which torch never frees.
        os._exit(code)
    sys.exit(code)


def _find_command(arguments: Sequence[str]) -> list[str]:
    """Return the first argument if it is a command; to complete the words of a shell, all.

    Typer takes 0.05 s to prepare all of them.
    """
    if "_MTKIT_COMPLETE" in os.environ:
        return list_commands()
    first = arguments[:1]
    is_command = first and (first[0] in COMMANDS or first[0] in plugins.find_plugins("commands"))
    return list(first) if is_command else []


def _prepare_streams() -> None:
    """Make stdout and stderr usable, whatever the caller closed, and let stdout write UTF-8."""
    # Python sets a closed stream to None. Then messages are dropped, but writing data is an error:
    # a file that is open for reading refuses it.
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def _describe_failure(error: Exception) -> tuple[str, int]:
    """Return what went wrong, in one line, and the exit code."""
    match error:
        case MtkitError():
            return str(error), error.exit_code
        case typer.TyperException():
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "mtkit"
            usage = _describe_usage(error)
            return f"{command}: {usage}; see `{command} --help`", error.exit_code
        case UnicodeEncodeError(object=text, start=at):  # of a path, as other text is replaced
            excerpt = text[max(0, at - 20) : at + 5]
            return f"the name {excerpt!r} is not UTF-8; rename the file", 2
        case OSError(strerror=str(reason)):
            return f"{error.filename or 'input or output'}: {reason}", 1
        case MemoryError() | RuntimeError() | ImportError() if is_out_of_memory(error):
            advice = "lower batching.max_tokens, or decoding.batch_tokens and beam"
            return f"out of memory; {advice}, or raise the limit of this process", 1
    # Libraries written in Rust hide the number of an operating system's error in the message.
    hidden_number = re.search(r"\(os error (\d+)\)", str(error))
    if hidden_number:
        return f"input or output: {os.strerror(int(hidden_number[1]))}", 1
    name = type(error).__name__
    return f"internal error: {name}: {error}; rerun with --debug for the traceback", 1


def _describe_usage(error: typer.TyperException) -> str:
    """Return the message of a usage error, in the style of mtkit's messages."""
    from pydantic import ValidationError

    from mtkit.config.base import error_message

    text = error.format_message()
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        first = cause.errors(include_url=False)[0]
        text = text.replace(error.message, error_message(first))
    return f"{text[0].lower()}{text[1:]}".replace(". Did", "; did").rstrip(".")
