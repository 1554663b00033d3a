"""What several commands have in common: their options, and that none is lost in silence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast, get_type_hints

from typer import Option, Typer
from typer.core import TyperCommand, TyperOption
from typer.main import get_command

from mtkit import report
from mtkit.errors import SettingError, UserError

if TYPE_CHECKING:
    from mtkit.config.errors import Origin


def flag(*names: str, help: str, tell: Callable[[bool], None] | None = None) -> Any:
    """An option without a value; where `tell` is told of it, the command is not."""
    return Option(False, *names, help=help, callback=tell, expose_value=tell is None)


def _common(
    quiet: bool = flag("-q", "--quiet", help="Only warnings and errors.", tell=report.set_quiet),
    debug: bool = flag("--debug", help="Show the traceback of an error.", tell=report.set_debug),
) -> None: ...


# typer makes options of the parameters of functions alone: so of one that is never called.
_app = Typer(add_completion=False)
_app.command()(_common)
QUIET, DEBUG = get_command(_app).params


class Command(TyperCommand):
    """Has --debug; an option of one value is given once, and none lost in silence."""

    common: tuple[Any, ...] = (DEBUG,)

    def __init__(self, *, params: list[Any], **others: Any) -> None:
        super().__init__(params=[*params, *self.common], **others)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises a usage error for an option whose first value would be lost."""
        if ctx.resilient_parsing:  # what is being typed is completed, not judged
            return super().parse_args(ctx, args)
        given = self.make_parser(ctx).parse_args(args=list(args))[2]
        for option in given:
            takes_one = isinstance(option, TyperOption) and not (option.multiple or option.is_flag)
            if takes_one and given.count(option) > 1:
                ctx.fail(f"Option {option.opts[-1]!r} was given twice.")
        return super().parse_args(ctx, args)


@contextmanager
def located(origin: Origin) -> Iterator[None]:
    """Around what a config is used for: what is wrong with a setting is told with its line."""
    try:
        yield
    except SettingError as error:
        raise UserError(f"{origin.where(error.key)}: {error}") from error


class LongCommand(Command):
    """A command that has progress to tell of, which --quiet silences."""

    common = (QUIET, DEBUG)


def of_fields(function: Callable[[Any], None]) -> Callable[..., None]:
    """Makes a command of a function of `options`: a dataclass, whose fields are the options."""
    given = get_type_hints(function)["options"]

    @wraps(function)
    def command(**options: Any) -> None:
        function(given(**options))

    command.__annotations__ = get_type_hints(given, include_extras=True)
    cast(Any, command).__signature__ = inspect.signature(given, eval_str=True)
    return command


def refuse(why: str, options: object, names: Iterable[str]) -> None:
    """Raises UserError for the first of these fields of `options` that is not its default."""
    defaults = {field.name: field.default for field in fields(cast(Any, options))}
    for name in names:
        if getattr(options, name) != getattr(defaults[name], "default", defaults[name]):
            raise UserError(f"--{name.replace('_', '-')}: {why}")


Overrides = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY.PATH=VALUE", help="Override a setting; repeatable."),
]
Model = Annotated[
    str | None, Option("-m", "--model", help="Run or model; default: $MTKIT_MODEL or the last run.")
]
Models = Annotated[
    list[str] | None,
    Option(
        "-m",
        "--model",
        metavar="PATH",
        help="Run or model, several for an ensemble; default: $MTKIT_MODEL or the last run.",
    ),
]


Codes = TypeVar("Codes", str | None, tuple[str, str] | None)


def _check_languages(option: TyperOption, codes: Codes) -> Codes:
    from mtkit.config.languages import check_language

    for code in [codes] if isinstance(codes, str) else codes or ():
        try:
            check_language(code)
        except ValueError as error:
            raise UserError(f"{option.opts[0]}: {error}") from None
    return codes


Columns = Annotated[
    tuple[str, str] | None,
    Option("--columns", metavar="S T", help="Of a table or dataset; default, of a .tsv: 0 1."),
]
Languages = Annotated[
    tuple[str, str] | None,
    Option(
        "--languages",
        metavar="S T",
        help="Codes of what the sides are to be in, such as en ko.",
        callback=_check_languages,
    ),
]
Language = Annotated[
    str | None,
    Option(help="Code such as de or ko: adds Moses-tokenised BLEU.", callback=_check_languages),
]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]
Engine = Annotated[
    Literal["auto", "torch", "ctranslate2"],
    Option(help="What searches; auto: CTranslate2 where it can do what is asked."),
]
ComputeType = Literal["auto", "int8", "int8_float32", "int16", "float16", "bfloat16", "float32"]
Json = Annotated[bool, Option("--json", help="JSON instead of a table.")]
Plot = Annotated[
    Path | None, Option("--plot", metavar="FILE", help="Picture to draw: .png or .svg.")
]
