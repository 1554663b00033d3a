"""Files of gettext (`.po`, `.pot`): msgid is translated into msgstr."""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import NamedTuple

from mtkit.extras.documents.units import (
    DocumentError,
    Replacement,
    Target,
    TextUnit,
    unescape_backslashes,
)

_STRINGS = r'"(?:[^"\\\n]|\\.)*+"(?:\s*"(?:[^"\\\n]|\\.)*+")*+'
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_TARGET = re.compile(rf"msgstr(?:\[\d+\])?\s*({_STRINGS})")
_MESSAGE = re.compile(
    rf"^[ \t]*(?P<context>msgctxt\s*{_STRINGS}\s*)?msgid\s*(?P<text>{_STRINGS})\s*"
    rf"(?:msgid_plural\s*(?P<plural>{_STRINGS})\s*)?"
    rf"(?P<targets>msgstr(?:\[\d+\])?\s*{_STRINGS}(?:\s*msgstr\[\d+\]\s*{_STRINGS})*+)",
    re.MULTILINE,
)
_LINE = re.compile(r"[ \t]*(?P<text>\S[^\n]*)")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "\r": r"\r"})
_OPEN_FIELD = re.compile(
    r"charset=(?P<charset>(?i:CHARSET|(?:US-)?ASCII))\b|\bLanguage:(?P<language> *)(?=\\n)"
    r"|(?P<rule>nplurals=INTEGER; plural=EXPRESSION;)"
)
"""What a template leaves open in its header."""
_FUZZY = re.compile(r"(?<=,)[ \t]*fuzzy[ \t]*,|,[ \t]*fuzzy(?=[ \t\r]*$)", re.MULTILINE)
"""The flag with one of the commas around it."""
_NO_FLAGS = re.compile(r"\A[ \t]*#[ \t\r]*\n")
"""A line whose flags are removed."""
_PREVIOUS = re.compile(r"^[ \t]*#\|[^\n]*\n", re.MULTILINE)
"""A line of the text that a fuzzy translation was made for."""
_IS_FORMAT = re.compile(r"^#,(?:.*,)?[ \t]*(?!no-)[a-z-]+-format\b", re.MULTILINE)
_ARGUMENT = re.compile(r"%(\d+\$|\(\w+\))?[-+ #'0-9.*hlLqjzt]*[a-zA-Z@%]|\{(\w*)[^{}]*\}")
"""An argument of C or Python, and its number or name."""

_RULE = re.compile(r"nplurals\s*=\s*([1-6])\s*;\s*plural\s*=\s*([^;\\\"]+);")
"""Arabic has the most forms: 6."""


class PluralRule(NamedTuple):
    """How many forms a plural has in a language."""

    forms: int
    singular: int | None
    """The form of the number 1; None if all numbers have the same form."""
    text: str
    """The rule as a header has it."""


GERMANIC = PluralRule(forms=2, singular=0, text="nplurals=2; plural=(n != 1);")


def parse_rule(header: str) -> PluralRule:
    """Return the rule in a header; the Germanic one if it has no valid one."""
    found = _RULE.search(header)
    if found is None:
        return GERMANIC
    forms = int(found[1])
    try:
        singular = gettext.c2py(found[2])(1)
    except (ValueError, ZeroDivisionError):
        return GERMANIC
    if singular >= forms:
        return GERMANIC
    return PluralRule(forms, singular if forms > 1 else None, found[0])


def rule_of(language: str | None) -> PluralRule:
    """Return the rule of a language; the Germanic one if the language is unknown."""
    if language is None:
        return GERMANIC
    from babel.messages.plurals import get_plural

    plural = get_plural(language.replace("-", "_"))
    return parse_rule(f"{plural};")


def read_po(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each message; the header is one without a text.

    Raises:
        ImportError: the file is a template, and babel is not installed.
        DocumentError: a line is neither a comment nor of a complete message.
    """
    line_end = "\r\n" if "\r\n" in document else "\n"
    rule: PluralRule | None = GERMANIC
    done = 0
    for message in _MESSAGE.finditer(document):
        flags = _read_comments(document, done, message.start())
        is_format = _IS_FORMAT.search(document, done, message.start())
        done = message.end()
        texts = [_read_strings(message["text"])]
        targets = _TARGET.findall(message["targets"])
        translations = [_read_strings(strings) for strings in targets]
        if message["plural"] is not None:
            texts.append(_read_strings(message["plural"]))
        elif texts == [""] and message["context"] is None:
            rule = parse_rule(translations[0])
            if "nplurals=INTEGER" in translations[0]:
                import_module("babel")  # fails before the texts are translated
                rule = None
            yield TextUnit((), partial(_fill_header, message))
            continue
        formats = texts if is_format else ()
        yield TextUnit(
            texts=texts,
            write=partial(_write_message, message, flags, rule, line_end, formats),
            translations=translations,
            is_reviewed=all(translations) and flags is None,
            has_mark=True,
        )
    _read_comments(document, done, len(document))


def _read_comments(document: str, start: int, end: int) -> re.Match[str] | None:
    """Return the flags before a message if one of them is "fuzzy"."""
    flags: re.Match[str] | None = None
    for line in _LINE.finditer(document, start, end):
        text = line["text"]
        if not text.startswith("#"):
            raise DocumentError(line.start(), f"no complete message of gettext: {text[:40]!r}")
        if text.startswith("#~"):
            flags = None  # those of an obsolete message
        elif text.startswith("#,") and _FUZZY.search(text):
            flags = line
    return flags


def _read_strings(strings: str) -> str:
    return unescape_backslashes("".join(_STRING.findall(strings)))


def _write_message(
    message: re.Match[str],
    flags: re.Match[str] | None,
    rule: PluralRule | None,
    line_end: str,
    formats: Sequence[str],
    translations: Sequence[str],
    target: Target,
) -> Iterator[Replacement]:
    """Yield what writes a translation, and the flag "fuzzy" if it is not sure.

    `formats`: the texts, if a program puts arguments into them, which must stay in their order.
    If the language has more than two plural forms, the message is fuzzy: no model can tell which
    form belongs to which numbers.
    """
    pairs = zip(formats, translations, strict=False)
    has_arguments = all(_arguments(source) == _arguments(text) for source, text in pairs)
    is_sure = target.is_sure and has_arguments
    forms = {"msgstr": translations[0]}
    if len(translations) > 1:
        rule = rule or rule_of(target.language)
        is_sure = is_sure and rule.forms <= len(translations)
        singular, plural = translations
        forms = {
            f"msgstr[{number}]": singular if number == rule.singular else plural
            for number in range(rule.forms)
        }
    lines = [f"{keyword} {_quote(text, line_end)}" for keyword, text in forms.items()]
    yield Replacement(*message.span("targets"), line_end.join(lines))
    if flags is not None:
        comments = _PREVIOUS.sub("", message.string[flags.start() : message.start()])
        if is_sure:
            # If no other flag is left, the line goes too.
            comments = _NO_FLAGS.sub("", _FUZZY.sub("", comments, count=1))
        yield Replacement(flags.start(), message.start(), comments)
    elif not is_sure:
        yield Replacement(message.start(), message.start(), f"#, fuzzy{line_end}")


def _arguments(text: str) -> Sequence[str]:
    """Return the arguments of a format in order, and after them the numbered and named ones."""
    arguments = sorted(_ARGUMENT.finditer(text), key=lambda found: found[1] or found[2] or "")
    return [argument[0] for argument in arguments]


def _quote(text: str, line_end: str) -> str:
    """Return a text as strings: one for each line, after an empty one if several."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    if len(lines) != 1:
        lines.insert(0, "")
    strings = [f'"{line.translate(_ESCAPES)}"' for line in lines]
    return line_end.join(strings)


def _fill_header(
    header: re.Match[str], translations: Sequence[str], target: Target
) -> Iterator[Replacement]:
    """Yield what fills the encoding, the language and the rule of plurals in a template."""
    for gap in _OPEN_FIELD.finditer(header.string, *header.span("targets")):
        name = str(gap.lastgroup)
        value = "UTF-8"
        if name == "rule":
            value = rule_of(target.language).text
        elif name == "language":
            value = f" {target.language or ''}".replace("-", "_")
        yield Replacement(*gap.span(name), value)
