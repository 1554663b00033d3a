"""Files of gettext (`.po`, `.pot`): msgid is translated into msgstr."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from mtkit.extras.documents.gettext_entries import PoEntry, quote_text, read_entries
from mtkit.extras.documents.plurals import GERMANIC, PluralRule, parse_rule, rule_of
from mtkit.extras.documents.units import DocumentError, Replacement, Target, TextUnit, find_line_end

_OPEN_FIELD = re.compile(
    r"charset=(?P<charset>CHARSET|(?:US-)?ASCII)\b|\bLanguage:(?P<language> *)(?=\\n)"
    r"|(?P<rule>nplurals=INTEGER; plural=EXPRESSION;)"
)
"""What a template leaves open in its header."""
_FUZZY = re.compile(r"(?<=,)[ \t]*fuzzy[ \t]*,|,[ \t]*fuzzy(?=[ \t\r]*$)")
"""The flag with one of the commas around it."""


@dataclass
class PoHeader:
    """What the start of a file tells, for all its messages."""

    line_end: str
    rule: PluralRule | None = GERMANIC
    """None: a template, which gets the rule of the target language."""


def read_po(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each message; the header is one without a text."""
    header = PoHeader(find_line_end(document))
    for entry in read_entries(document):
        if "msgid" not in entry.fields or not entry.forms:
            raise DocumentError(entry.start, "a message without msgid or msgstr")
        texts = [entry.text("msgid")]
        is_header = entry.fields.keys() == {"msgid", "msgstr"} and texts == [""]
        if is_header:
            text = entry.text("msgstr")
            header.rule = parse_rule(text)
            is_template = "nplurals=INTEGER" in text
            if header.rule is None and not is_template:
                header.rule = GERMANIC
            yield TextUnit((), partial(_fill_header, header, entry.fields["msgstr"]))
            continue
        existing = [entry.text(form) for form in entry.forms]
        if "msgid_plural" in entry.fields:
            texts.append(entry.text("msgid_plural"))
        yield TextUnit(
            texts=texts,
            write=partial(_write_message, header, entry),
            translation=existing[0] if all(existing) else "",
            is_reviewed=not entry.is_fuzzy,
            has_mark=True,
        )


def _write_message(
    header: PoHeader, entry: PoEntry, translations: Sequence[str], target: Target
) -> Iterator[Replacement]:
    """Yield what writes a translation, and the flag "fuzzy" if it is not sure.

    If the language has more than two plural forms, the message is fuzzy: no model can tell which
    form belongs to which numbers.
    """
    is_sure = target.is_sure
    first = entry.fields[entry.forms[0]]
    if len(translations) == 1:
        written = quote_text(translations[0], header.line_end)
        yield Replacement(*first.span("strings"), written)
    else:
        rule = header.rule or rule_of(target.language)
        is_sure = is_sure and rule.forms <= len(translations)
        last = entry.fields[entry.forms[-1]]
        forms = _write_forms(header, entry, translations, rule)
        written = header.line_end.join(forms)
        yield Replacement(first.start("keyword"), last.end(), written)
    yield from _write_flags(header, entry, is_sure)


def _write_flags(header: PoHeader, entry: PoEntry, is_sure: bool) -> Iterator[Replacement]:
    """Yield what adds the flag "fuzzy" to a message that is not sure, or removes it."""
    if is_sure != entry.is_fuzzy:
        return
    if entry.flags is None:
        yield Replacement(entry.start, entry.start, f"#, fuzzy{header.line_end}")
        return
    start, end = entry.flags.span("comment")
    if not is_sure:
        yield Replacement(start, start + len("#,"), "#, fuzzy,")
        return
    others = _FUZZY.sub("", entry.flags["comment"])
    if not others.strip("#\r"):
        others = ""
        end += len("\n")  # no flag is left, nor a line for it
    yield Replacement(start, end, others)


def _write_forms(
    header: PoHeader, entry: PoEntry, translations: Sequence[str], rule: PluralRule
) -> Iterator[str]:
    """Yield the plural forms with their keywords; forms that the file has stay, unless all are."""
    singular, plural = translations
    is_complete = all(map(entry.text, entry.forms))
    for number in range(rule.forms):
        keyword = f"msgstr[{number}]"
        text = singular if number == rule.singular else plural
        if not is_complete:
            text = entry.text(keyword) or text
        yield f"{keyword} {quote_text(text, header.line_end)}"


def _fill_header(
    header: PoHeader, strings: re.Match[str], translations: Sequence[str], target: Target
) -> Iterator[Replacement]:
    """Yield what fills the encoding, the language and the rule of plurals in a template."""
    language = target.language
    values = {"charset": "UTF-8"}
    if language is not None:
        values["language"] = f" {language.replace('-', '_')}"
    if header.rule is None:
        values["rule"] = rule_of(language).text
    start, end = strings.span("strings")
    for field in _OPEN_FIELD.finditer(strings.string, start, end):
        name = field.lastgroup
        if name in values:
            yield Replacement(*field.span(name), values[name])
