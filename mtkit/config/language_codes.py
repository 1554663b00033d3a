"""Language codes of ISO 639, and other spellings that people use."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import resources
from typing import Annotated

from pydantic import AfterValidator

DOTLESS_LANGUAGES = ("tr", "az", "crh", "gag")
"""Turkish, Azerbaijani, Crimean Tatar and Gagauz."""


def language_code(code: str | None) -> str:
    """Return the language part of a code such as pt-BR, in lower case; empty for None."""
    return (code or "").replace("_", "-").split("-")[0].lower()


@cache
def language_names() -> frozenset[str]:
    """Return the codes and names of languages in the table, in lower case."""
    return frozenset(spelling.lower() for row in _table() for spelling in row)


def _table() -> list[list[str]]:
    """Return rows of ISO 639-1 code, ISO 639-3 code, English name, and other spellings."""
    table = resources.files("mtkit.config").joinpath("languages.tsv").read_text("utf-8")
    return [line.split("\t") for line in table.splitlines()]


def dotless_side(source: str | None, target: str | None) -> str | None:
    """Return the side where I is the capital of ı: "source", "target", "both" or None."""
    has_source = language_code(source) in DOTLESS_LANGUAGES
    has_target = language_code(target) in DOTLESS_LANGUAGES
    if has_source and has_target:
        return "both"
    if has_source:
        return "source"
    return "target" if has_target else None


def check_language(code: str) -> str:
    """Return the code, which may have a script or region (pt_BR), or raise ValueError."""
    codes: set[str] = set()
    code_of: dict[str, str] = {}  # of each other spelling
    for short_code, *spellings in _table():
        codes.add(short_code)
        for spelling in spellings:
            code_of[spelling.lower()] = short_code
    language = language_code(code)
    if language in codes:
        return code
    # The table has only languages with a code of two letters; other three letters may be a code.
    is_rare = len(language) == 3 and language.isascii() and language.isalpha()
    if is_rare and language not in code_of:
        return code
    likely = code_of.get(code.lower()) or code_of.get(language)
    if likely is None:
        close = difflib.get_close_matches(code.lower(), code_of, n=1)
        likely = code_of[close[0]] if close else None
    hint = f"did you mean {likely}?" if likely else "use a code of ISO 639, such as de or ko"
    raise ValueError(f"{code!r} is not a language code; {hint}")


LanguageCode = Annotated[str, AfterValidator(check_language)]
"""A language code, checked by `check_language`."""
