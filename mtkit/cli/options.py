"""Options that several commands share, and the rules that hold for all options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, get_type_hints

from typer import Option, Typer, TyperException
from typer.core import TyperCommand, TyperOption

from mtkit import report
from mtkit.errors import UserError


def flag(*names: str, help: str) -> Any:
    """Return an option without a value."""
    return Option(False, *names, help=help)


VALUE_NAMES = {"path": "FILE", "int": "N", "float": "NUMBER", "str": "TEXT"}
"""How help writes the value of an option, by the name of its type in Typer."""


REPLACED: Mapping[tuple[str, ...], str] = {
    **{
        ("attend", option): "-o FILE.html, a page with heat maps of every layer and head"
        for option in ("--view", "--kind", "--layer", "--head")
    },
    ("info", "--plot", "positions"): "mtkit attend TEXT -o FILE.html, a page with positions",
    ("info", "--plot", "schedule"): "mtkit info CONFIG --plot",
}
"""For a command and words of earlier versions, which lecture notes may still show: what to use."""


class _Command(TyperCommand):
    """A command that refuses an option given twice, unless the option may be repeated.

    Its help has plain names for values.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            if not ctx.resilient_parsing:  # shell completion
                self._refuse_replaced(ctx, args)
                self._refuse_repetition(ctx, self.make_parser(ctx).parse_args(args=list(args))[2])
            return super().parse_args(ctx, args)
        except TyperException as error:
            cast(Any, error).ctx = ctx  # a few errors have none; the message names the command
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write = formatter.write_dl
        formatter.write_dl = lambda rows: write([_plain_help(*row) for row in rows])
        super().format_options(ctx, formatter)

    def _refuse_replaced(self, ctx: Any, args: list[str]) -> None:
        names = [arg.partition("=")[0] for arg in args]
        for (command, *words), advice in REPLACED.items():
            is_used = any(names[at : at + len(words)] == words for at in range(len(names)))
            if command == ctx.info_name and is_used and not Path(words[-1]).exists():
                ctx.fail(f"{' '.join(words)} no longer exists; use {advice}")

    def _refuse_repetition(self, ctx: Any, options: list[Any]) -> None:
        for option in options:
            may_repeat = not isinstance(option, TyperOption) or option.multiple or option.is_flag
            if not may_repeat and options.count(option) > 1:
                ctx.fail(f"{option.opts[-1]} was given twice")


def _plain_help(name: str, text: str) -> tuple[str, str]:
    """Return a line of Typer's help without notes in brackets: <int range>, [default: 5]."""
    name, _, value = name.partition(" <")
    value = value.rstrip(">").removesuffix(" range") if name.startswith("-") else ""
    return f"{name} {VALUE_NAMES.get(value, value)}", text.partition("  [")[0]


def _set_verbosity(
    quiet: bool = flag("-q", "--quiet", help="Print only warnings and errors."),
    debug: bool = flag("--debug", help="Show the traceback of an error."),
) -> None:
    report.set_quiet(quiet)
    report.set_debug(debug)


def add_command(app: Typer, name: str, function: Callable[..., None]) -> None:
    """Add a command with the options of `function`, and --quiet and --debug.

    The options are the parameters of the function, or the fields of a dataclass if its only
    parameter is called `options`. A last line "Example: ..." of its docstring ends the help.
    """
    help, _, example = inspect.cleandoc(function.__doc__ or "").partition("\nExample: ")
    group = get_type_hints(function).get("options")

    @wraps(function)
    def command(*, quiet: bool, debug: bool, **values: Any) -> None:
        _set_verbosity(quiet, debug)
        function(**({"options": group(**values)} if group else values))

    signatures = [
        inspect.signature(it, eval_str=True) for it in (group or function, _set_verbosity)
    ]
    parameters = [parameter for it in signatures for parameter in it.parameters.values()]
    cast(Any, command).__signature__ = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    epilog = f"Example: {example}" if example else None
    app.command(name, cls=_Command, help=help, epilog=epilog)(command)


def refuse(why: str, **options: object) -> None:
    """Raise a UserError that names the first of `options` that is set.

    The keywords are the names of the options; None and False mean that an option is not set.
    """
    for name, value in options.items():
        if value is not None and value is not False:
            raise UserError(f"--{name.strip('_').replace('_', '-')} {why}")


Codes = TypeVar("Codes", str | None, tuple[str, str] | None)


def _check_languages(option: TyperOption, codes: Codes) -> Codes:
    from mtkit.config.language_codes import check_language

    for code in [codes] if isinstance(codes, str) else codes or ():
        try:
            check_language(code)
        except ValueError as error:
            raise UserError(f"{option.opts[0]}: {error}") from None
    return codes


COLUMNS_HELP = "Source and target columns, by name or number (default: the two that hold text)."
LANGUAGE_HELP = (
    "Target language, such as de or ko: selects BLEU's tokenizer and adds Moses-tokenised BLEU."
)
LANGUAGES_HELP = "Languages of source and target, such as en ko (default: identify them)."
DEFAULT_RUN = "the run of ./mtkit.yaml, else the last run"
DEFAULT_MODEL = f"$MTKIT_MODEL, else {DEFAULT_RUN}"
MODEL_HELP = f"Directory of a run or a model (default: {DEFAULT_MODEL})"

Overrides = Annotated[
    list[str] | None,
    Option(
        "--set", metavar="KEY.PATH=VALUE", help="Override a setting of the config; may be repeated."
    ),
]
Model = Annotated[str | None, Option("-m", "--model", metavar="PATH", help=f"{MODEL_HELP}.")]
Models = Annotated[
    list[str] | None,
    Option(
        "-m", "--model", metavar="PATH", help=f"{MODEL_HELP}; repeat the option for an ensemble."
    ),
]
Columns = Annotated[tuple[str, str] | None, Option("--columns", metavar="S T", help=COLUMNS_HELP)]
Languages = Annotated[
    tuple[str, str] | None,
    Option("--languages", metavar="S T", help=LANGUAGES_HELP, callback=_check_languages),
]
Language = Annotated[
    str | None, Option(metavar="CODE", help=LANGUAGE_HELP, callback=_check_languages)
]
Device = Annotated[
    str,
    Option(
        metavar="DEVICE", help="Device: cpu, cuda, mps or auto (default: auto, a GPU if available)."
    ),
]
Engine = Annotated[
    Literal["auto", "torch", "ctranslate2"],
    Option(help="Decoding engine (default: auto, CTranslate2 for what it supports, else PyTorch)."),
]
ComputeType = Literal["auto", "int8", "int8_float32", "int16", "float16", "bfloat16", "float32"]
Json = Annotated[bool, Option("--json", help="Print JSON instead of a table.")]
