"""Language codes of ISO 639, and what people write instead."""

from __future__ import annotations

import difflib
from importlib import resources
from typing import Annotated

from pydantic import AfterValidator


def language_code(code: str | None) -> str:
    """Return the language of a code such as pt-BR, in lower case; empty for None."""
    return (code or "").replace("_", "-").split("-")[0].lower()


def check_language(code: str) -> str:
    """Return the code, perhaps with a script or region (pt_BR); ValueError if it is not one."""
    # Columns: ISO 639-1 code, ISO 639-3 code, English name, other spellings.
    table = resources.files("mtkit.config").joinpath("languages.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in table.splitlines()]
    code_of = {spelling.lower(): row[0] for row in rows for spelling in row[1:]}
    language = language_code(code)
    is_rare = len(language) == 3 and language.isascii() and language.isalpha()
    if language in {row[0] for row in rows} or (is_rare and language not in code_of):
        return code
    close = difflib.get_close_matches(code.lower(), code_of, 1)
    likely = code_of.get(code.lower()) or code_of.get(language) or (close and code_of[close[0]])
    hint = f"did you mean {likely}?" if likely else "use a code of ISO 639, such as de or ko"
    raise ValueError(f"{code!r} is not a language code: {hint}")


LanguageCode = Annotated[str, AfterValidator(check_language)]
"""A language code, checked by `check_language`."""
