"""What parsers of other projects find in messages of programs is protected, once and unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from moz.l10n.formats import Format
from moz.l10n.message import parse_message, serialize_message
from moz.l10n.model import Expression, Markup, PatternMessage
from pyicumessageformat import Parser

from folders import copier_of, train
from mtkit.decoding.api import Translator
from mtkit.extras.protect.spans import find_spans

MESSAGES = [
    (Format.properties, "A dog %s runs."),
    (Format.properties, "Two men: %d of %i dogs run"),
    (Format.properties, "A dog %1$s and %2$s runs, %3$d"),
    (Format.properties, "A dog %(name)s runs on %(count)d boats"),
    (Format.properties, "%S runs"),
    (Format.properties, "A %5.2f or %-10s or %05d dog"),
    (Format.properties, "It rains on %d%% of the dogs"),
    (Format.gettext, "A dog %s runs on %ld boats"),
    (Format.gettext, "A dog %(dog)s runs on %(n)d boats"),
    (Format.android, "A <b>dog</b> %1$s runs"),
    (Format.android, "%1$d dogs <i>and %2$s</i> run"),
    (Format.fluent, "A dog { $user } runs"),
    (Format.fluent, "A dog { -brand } runs on { $count }"),
    (Format.fluent, 'A { "x" } dog'),
    (Format.fluent, 'A { NUMBER($n, style: "percent") } dog runs'),
    (Format.fluent, 'A { DATETIME($d, month: "long") } dog runs'),
    (Format.fluent, 'A { message.attribute } dog and { -term(case: "genitive") }'),
    (Format.webext, "A $NAME$ runs"),
    (Format.webext, "A $name$ and two $COUNT$ run"),
    (Format.mf2, "A {$name} dog"),
    (Format.mf2, "A {$count :number} dog"),
    (Format.mf2, "A {#b}dog{/b} {#br/} runs"),
    (Format.xliff, 'A <g id="1">dog</g> <x id="2"/> runs'),
]
"""Formats, and messages in them."""
PATTERNS = [
    "A {name} runs.",
    "{0} and {1}",
    "A dog {0, number} runs on {1,date,short}",
    "A {when, time, ::jmm} dog",
    "{count, plural, one {# dog runs} other {# dogs run on {place}}}",
    "{g, select, male {A man {name} runs} other {{name} runs, {n, number, integer}}}",
    "{n, selectordinal, one {#st dog} other {the #th {x}}}",
    "{g, select, a {a {n, plural, one {dog {a}} other {{n} dogs}} runs} other {It {b}}}",
    "It''s '{no}' {name} {n, plural, one {dog} other {dogs}}",
    "Two men: {n, plural, offset:1 =0 {no dog} one {{name} runs} other {# dogs}}",
]
"""Messages of ICU, which java.text.MessageFormat has as well."""
WEBEXT_PLACEHOLDERS = {name: {"content": "a dog"} for name in ("NAME", "COUNT", "name")}


@pytest.fixture(scope="module")
def copier() -> Translator:
    return copier_of(train(normalization_rule_name="identity"))


def placeholders_of(kind: Format, message: str) -> list[str]:
    """Return the placeholders and tags that moz.l10n finds, as the message has them."""
    is_webext = kind is Format.webext
    parsed = parse_message(
        kind,
        message,
        printf_placeholders=kind in (Format.properties, Format.gettext),
        webext_placeholders=WEBEXT_PLACEHOLDERS if is_webext else None,
    )
    assert isinstance(parsed, PatternMessage)
    found: list[str] = []
    for part in parsed.pattern:
        if isinstance(part, Expression | Markup):
            found.append(_write(kind, part))
    return found


def _write(kind: Format, part: Expression | Markup) -> str:
    if "source" in part.attributes:
        return str(part.attributes["source"])
    if kind not in (Format.android, Format.xliff) or isinstance(part, Expression):
        return serialize_message(kind, PatternMessage([part]))
    slashes = {"open": ("", ""), "close": ("/", ""), "standalone": ("", "/")}
    before, after = slashes[part.kind]
    options = "".join(f' {name}="{value}"' for name, value in part.options.items())
    return f"<{before}{part.name}{options}{after}>"


def arguments_of(parts: list[Any], text: str) -> Iterator[str]:
    """Yield the arguments that pyicumessageformat finds in a message, and in its texts."""
    for part in parts:
        if isinstance(part, Mapping):
            if "options" not in part:
                yield text[part["start"] : part["end"]]
            for inner in part.get("options", {}).values():
                yield from arguments_of(inner, text)


@pytest.mark.parametrize(("kind", "message"), MESSAGES, ids=str)
def test_each_placeholder_of_moz_l10n_is_one_span_that_comes_back(
    kind: Format, message: str, copier: Translator
) -> None:
    expected = placeholders_of(kind, message)
    assert expected
    assert [message[span.start : span.end] for span in find_spans(message)] == expected
    assert copier.translate([message]) == [message]


@pytest.mark.parametrize("message", PATTERNS)
def test_each_argument_of_pyicumessageformat_is_protected_and_comes_back(
    message: str, copier: Translator
) -> None:
    parsed = Parser({"include_indices": True}).parse(message)
    protected: list[str] = []
    for span in find_spans(message):
        if not span.texts:
            protected.append(message[span.start : span.end])
        waiting = [*span.texts]
        for text in waiting:
            own = message[text.start : text.end]
            for inner in find_spans(own, text.syntax):
                for each in inner.texts:
                    start, end = text.start + each.start, text.start + each.end
                    waiting.append(replace(each, start=start, end=end))
                if not inner.texts:
                    protected.append(own[inner.start : inner.end])
    arguments = list(arguments_of(parsed, message))
    assert sorted(each for each in protected if each[0] != "'") == sorted(arguments)
    assert copier.translate([message]) == [message]
