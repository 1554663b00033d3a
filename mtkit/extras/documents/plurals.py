"""How many forms a plural has in a language, and which one the number 1 takes."""

from __future__ import annotations

import gettext
import re
from contextlib import suppress
from importlib.util import find_spec
from typing import NamedTuple

from mtkit.errors import UserError

MAX_FORMS = 6
"""Most forms of any language, as Arabic has."""
_QUANTITIES = ("zero", "one", "two", "few", "many", "other")
"""The names that CLDR gives to plural forms."""
_RULE = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;\\\"]+);")


class PluralRule(NamedTuple):
    """A rule of gettext."""

    forms: int
    """Number of forms."""
    singular: int
    """The form of the number 1; if all numbers have the same form, -1."""
    text: str
    """The rule as a header has it."""


GERMANIC = PluralRule(forms=2, singular=0, text="nplurals=2; plural=(n != 1);")


def parse_rule(header: str) -> PluralRule | None:
    """Return the rule in a header of gettext; None if it has no valid one."""
    found = _RULE.search(header)
    if found is None:
        return None
    forms = int(found[1])
    try:
        singular = gettext.c2py(found[2])(1)
    except (ValueError, ZeroDivisionError):
        return None
    is_possible = 1 <= forms <= MAX_FORMS and singular < forms
    if not is_possible:
        return None
    if forms == 1:
        singular = -1
    return PluralRule(forms, singular, found[0])


def rule_of(language: str | None) -> PluralRule:
    """Return the rule of a language; the Germanic one if the language is unknown."""
    if language is None:
        return GERMANIC
    _need_babel()
    from babel.messages.plurals import get_plural

    plural = get_plural(language.replace("-", "_"))
    return parse_rule(f"{plural};") or GERMANIC


def quantities_of(language: str | None) -> list[str]:
    """Return the names of the plural forms of a language; "other" is the last."""
    names = {"one", "other"}
    if language is not None:
        _need_babel()
        from babel import Locale, UnknownLocaleError

        with suppress(UnknownLocaleError):
            names = {*Locale.parse(language, sep="-").plural_form.tags, "other"}
    return [name for name in _QUANTITIES if name in names]


def _need_babel() -> None:
    if find_spec("babel") is None:
        raise UserError("plural forms need another package: pip install 'mtkit[documents]'")
