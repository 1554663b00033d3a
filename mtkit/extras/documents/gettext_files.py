"""Files of gettext (`.po`, `.pot`): msgid is translated into msgstr."""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from mtkit.extras.documents.units import (
    DocumentError,
    Replacement,
    Target,
    TextUnit,
    import_package,
    unescape_backslashes,
)

_LINES = re.compile(
    r"^[ \t]*(?:(?P<comment>#[^\n]*)|(?P<keyword>msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s*"
    r"(?P<strings>\"(?:[^\"\\\n]|\\.)*\"(?:\s*\"(?:[^\"\\\n]|\\.)*\")*)(?=[ \t\r]*$)"
    r"|(?P<other>\S[^\n]*))",
    re.MULTILINE,
)
"""A comment, or a keyword with all its strings."""
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "\r": r"\r"})
_OPEN_FIELD = re.compile(
    r"charset=(?P<charset>CHARSET|(?:US-)?ASCII)\b|\bLanguage:(?P<language> *)(?=\\n)"
    r"|(?P<rule>nplurals=INTEGER; plural=EXPRESSION;)"
)
"""What a template leaves open in its header."""
_FUZZY = re.compile(r"(?<=,)[ \t]*fuzzy[ \t]*,|,[ \t]*fuzzy(?=[ \t\r]*$)")
"""The flag with one of the commas around it."""


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
    plurals = import_package("babel.messages.plurals")
    plural = plurals.get_plural(language.replace("-", "_"))
    return parse_rule(f"{plural};")


@dataclass(slots=True)
class PoEntry:
    """A message: its keywords with their strings, and its flags."""

    fields: dict[str, re.Match[str]] = field(default_factory=dict)
    flags: re.Match[str] | None = None

    def text(self, keyword: str) -> str:
        """Return the text of a keyword; empty if the message lacks it."""
        if keyword not in self.fields:
            return ""
        strings = _STRING.findall(self.fields[keyword]["strings"])
        return unescape_backslashes("".join(strings))

    @property
    def start(self) -> int:
        """Where the first keyword begins."""
        first = next(iter(self.fields.values()))
        return first.start()

    @property
    def is_fuzzy(self) -> bool:
        """Whether a person must look at the translation."""
        return self.flags is not None and "fuzzy" in self.flags["comment"]

    @property
    def forms(self) -> list[str]:
        """The keywords of the translation, or of its plural forms."""
        return [keyword for keyword in self.fields if keyword.startswith("msgstr")]


def read_entries(document: str) -> Iterator[PoEntry]:
    """Yield the messages of a file, without obsolete ones.

    Raises:
        DocumentError: a line is not one of gettext.
    """
    entry = PoEntry()
    for line in _LINES.finditer(document):
        if line["other"]:
            raise DocumentError(line.start(), f"not a line of gettext: {line['other'][:40]!r}")
        keyword = line["keyword"] or ""
        if keyword in entry.fields or (entry.forms and not keyword.startswith("msgstr")):
            yield entry
            entry = PoEntry()
        if keyword:
            entry.fields[keyword] = line
        elif line["comment"].startswith("#,") and not entry.is_fuzzy:
            entry.flags = line
        elif line["comment"].startswith("#~"):
            entry.flags = None  # those of an obsolete message
    if entry.fields:
        yield entry


def read_po(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each message; the header is one without a text."""
    line_end = "\r\n" if "\r\n" in document else "\n"
    rule: PluralRule | None = GERMANIC
    for entry in read_entries(document):
        if "msgid" not in entry.fields or not entry.forms:
            raise DocumentError(entry.start, "a message without msgid or msgstr")
        texts = [entry.text("msgid")]
        if entry.fields.keys() == {"msgid", "msgstr"} and texts == [""]:
            header = entry.text("msgstr")
            is_template = "nplurals=INTEGER" in header
            rule = None if is_template else parse_rule(header)
            yield TextUnit((), partial(_fill_header, entry.fields["msgstr"]))
            continue
        if "msgid_plural" in entry.fields:
            texts.append(entry.text("msgid_plural"))
        existing = [entry.text(form) for form in entry.forms]
        yield TextUnit(
            texts=texts,
            write=partial(_write_message, entry, line_end, rule),
            translation=next(filter(None, existing), ""),
            is_reviewed=all(existing) and not entry.is_fuzzy,
            has_mark=True,
        )


def _write_message(
    entry: PoEntry,
    line_end: str,
    rule: PluralRule | None,
    translations: Sequence[str],
    target: Target,
) -> Iterator[Replacement]:
    """Yield what writes a translation, and the flag "fuzzy" if it is not sure.

    If the language has more than two plural forms, the message is fuzzy: no model can tell which
    form belongs to which numbers.
    """
    is_sure = target.is_sure
    forms = {"msgstr": translations[0]}
    if len(translations) > 1:
        rule = rule or rule_of(target.language)
        is_sure = is_sure and rule.forms <= len(translations)
        forms = {f"msgstr[{number}]": translations[1] for number in range(rule.forms)}
        if rule.singular is not None:
            forms[f"msgstr[{rule.singular}]"] = translations[0]
    lines = [f"{keyword} {_quote(text, line_end)}" for keyword, text in forms.items()]
    start = entry.fields[entry.forms[0]].start("keyword")
    end = entry.fields[entry.forms[-1]].end()
    yield Replacement(start, end, line_end.join(lines))
    if not is_sure and not entry.is_fuzzy:
        yield Replacement(entry.start, entry.start, f"#, fuzzy{line_end}")
    elif is_sure and entry.flags is not None:
        start, end = entry.flags.span("comment")
        others = _FUZZY.sub("", entry.flags["comment"])
        if not others.strip("#\r"):
            others = ""
            end += len("\n")  # no flag is left, nor a line for it
        yield Replacement(start, end, others)


def _quote(text: str, line_end: str) -> str:
    """Return a text as strings: one for each line, after an empty one if several."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    if len(lines) != 1:
        lines.insert(0, "")
    strings = [f'"{line.translate(_ESCAPES)}"' for line in lines]
    return line_end.join(strings)


def _fill_header(
    strings: re.Match[str], translations: Sequence[str], target: Target
) -> Iterator[Replacement]:
    """Yield what fills the encoding, the language and the rule of plurals in a template."""
    for gap in _OPEN_FIELD.finditer(strings.string, *strings.span("strings")):
        name = str(gap.lastgroup)
        value = "UTF-8"
        if name == "rule":
            value = rule_of(target.language).text
        elif name == "language":
            value = f" {target.language or ''}".replace("-", "_")
        yield Replacement(*gap.span(name), value)
