"""Options that several commands share, and the rules that hold for all options.

Commands are plain functions for Typer: a parameter is an option or an argument, and the docstring
is the help. Every command has --quiet and --debug, too.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from typer import Option, TyperException
from typer.core import TyperCommand, TyperOption

from mtkit import report
from mtkit.errors import UserError

VALUE_NAMES = {"path": "FILE", "int": "N", "float": "NUMBER", "str": "TEXT"}
"""How help writes the value of an option, by the name of its type in Typer."""
SEVERAL = "..."
"""Ends the metavar of an option that takes several words."""


class Command(TyperCommand):
    """A command that refuses an option given twice, unless the option may be repeated.

    Its help has plain names for values. It ends with the last line of the docstring, which is
    "Example: mtkit NAME ...".
    """

    def __init__(self, name: str, *, help: str, epilog: str | None, **others: Any) -> None:
        help, _, example = help.partition("\nExample: ")
        super().__init__(name, help=help, epilog=f"Example: {example}", **others)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            is_completion = ctx.resilient_parsing
            if not is_completion:
                args = _repeat_options(self.params, args)
                _, _, given = self.make_parser(ctx).parse_args(args=list(args))
                _refuse_repetition(ctx, given)
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


@dataclass(frozen=True)
class CommandGroup:
    """Commands whose names follow that of the group, such as `mtkit bench train`."""

    help: str
    commands: Mapping[str, Callable[..., None]]


def _repeat_options(parameters: Sequence[Any], args: Sequence[str]) -> list[str]:
    """Repeat an option that takes several words before each: --tags a b is --tags a --tags b.

    Its words end at the next option.
    """
    names: set[str] = set()
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and str(parameter.metavar).endswith(SEVERAL):
            names.update(parameter.opts)
    repeated: list[str] = []
    option: str | None = None
    """The option to repeat before the next word, if any."""
    has_value = True
    for word in args:
        if word.startswith("-"):
            name, equals, _ = word.partition("=")
            option = name if name in names else None
            has_value = bool(equals)
        else:
            if option is not None and has_value:
                repeated.append(option)
            has_value = True
        repeated.append(word)
    return repeated


def _refuse_repetition(ctx: Any, given: Sequence[Any]) -> None:
    """Fail if an option that takes one value was given twice; `given`: parameters, in order."""
    for parameter in given:
        takes_one_value = (
            isinstance(parameter, TyperOption)
            and not parameter.multiple
            and not parameter.is_flag  # a flag given twice is harmless
        )
        if takes_one_value and given.count(parameter) > 1:
            ctx.fail(f"{parameter.opts[-1]} was given twice")


def _plain_help(name: str, text: str) -> tuple[str, str]:
    """Return a line of Typer's help without notes in brackets: <int range>, [default: 5]."""
    name, _, value = name.partition(" <")
    is_option = name.startswith("-")
    value = value.rstrip(">").removesuffix(" range") if is_option else ""
    text, _, _ = text.partition("  [")
    return f"{name} {VALUE_NAMES.get(value, value)}", text


def refuse(why: str, **options: object) -> None:
    """Raise a UserError that names the first of `options` that is set.

    The keywords are the names of the options; None and False mean that an option is not set.
    """
    for name, value in options.items():
        if value is not None and value is not False:
            raise UserError(f"--{name.strip('_').replace('_', '-')} {why}")


def _set_quiet(quiet: bool) -> bool:
    report.set_quiet(quiet)
    return quiet


def _set_debug(debug: bool) -> bool:
    report.set_debug(debug)
    return debug


def _standard_language(option: TyperOption, name: str | None) -> str | None:
    from mtkit.config.language_codes import standard_language

    try:
        return None if name is None else standard_language(name)
    except ValueError as error:
        raise UserError(f"{option.opts[0]}: {error}") from None


def _standard_languages(
    option: TyperOption, names: tuple[str, str] | None
) -> tuple[str | None, ...] | None:
    return names and tuple(_standard_language(option, name) for name in names)


DEFAULT_RUN = "the run of ./mtkit.yaml, else the last run"
DEFAULT_MODEL = f"$MTKIT_MODEL, else {DEFAULT_RUN}"
MODEL_HELP = f"Directory of a run or a model, or OWNER/NAME on the hub (default: {DEFAULT_MODEL})"

Quiet = Annotated[
    bool, Option("-q", "--quiet", callback=_set_quiet, help="Print only warnings and errors.")
]
Debug = Annotated[
    bool, Option("--debug", callback=_set_debug, help="Show the traceback of an error.")
]
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
Columns = Annotated[
    tuple[str, str] | None,
    Option(
        "--columns",
        metavar="S T",
        help="Source and target columns: name, letter or number (default: the two with text).",
    ),
]
Sheet = Annotated[str | None, Option(metavar="NAME", help="Sheet (default: the one with text).")]
Languages = Annotated[
    tuple[str, str] | None,
    Option(
        "--languages",
        metavar="S T",
        callback=_standard_languages,
        help="Languages of source and target, such as en ko or English Korean (default: identify "
        "them).",
    ),
]
Language = Annotated[
    str | None,
    Option(
        metavar="LANGUAGE",
        callback=_standard_language,
        help="Target language, such as de or German: selects BLEU's tokenizer and adds "
        "Moses-tokenised BLEU.",
    ),
]
Tag = Annotated[
    str | None,
    Option(metavar="TAG", help="Target tag, such as yor, for a model of several languages."),
]
SourceTag = Annotated[
    str | None,
    Option(metavar="TAG", help="Language of the input, such as en, for a model such as NLLB."),
]
Glossary = Annotated[
    Path | None,
    Option(metavar="FILE", help="Terms and their translations (source, tab, target)."),
]
Device = Annotated[
    str,
    Option(
        metavar="DEVICE", help="Device: cpu, cuda, mps or auto (default: auto, a GPU if available)."
    ),
]
Engine = Annotated[
    Literal["auto", "torch", "ctranslate2"],
    Option(help="Decoding engine (default: auto, CTranslate2 if possible, else PyTorch)."),
]
ComputeType = Literal["auto", "int8", "int8_float32", "int16", "float16", "bfloat16", "float32"]
ComputeOption = Annotated[
    ComputeType, Option(help="Data type of the computation (default: auto, float32).")
]
Json = Annotated[bool, Option("--json", help="Print JSON instead of a table.")]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with --quiet and --debug, which take effect when they are parsed.

    If it takes `**settings`, it also has an option for each setting of search and sampling. Their
    names and help are those of the fields of the config, whose import takes 0.1 s.
    """

    def run(quiet: Quiet = False, debug: Debug = False, **values: Any) -> None:
        command(**values)

    parameters = dict(inspect.signature(command, eval_str=True).parameters)
    if parameters.pop("settings", None) is not None:
        parameters |= _search_options()
    common = inspect.signature(run, eval_str=True).parameters
    parameters |= {name: common[name] for name in ("quiet", "debug")}
    signature = inspect.Signature(list(parameters.values()))
    cast(Any, run).__signature__ = signature
    run.__doc__ = command.__doc__
    return run


def _search_options() -> dict[str, Parameter]:
    """Return an option for each setting of search and sampling, by name."""
    from mtkit.config.decoding import SamplingSettings, SearchSettings

    options: dict[str, Parameter] = {}
    for section in (SearchSettings, SamplingSettings):
        for name, field in section.model_fields.items():
            meaning = str(field.description)
            option = Option(help=f"{meaning[0].upper()}{meaning[1:]}.")
            options[name] = Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD,
                default=None,
                annotation=Annotated[cast(Any, field.annotation) | None, option],
            )
    return options
