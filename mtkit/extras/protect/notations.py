"""Notations of placeholders, markup and code in the texts of programs, each with an example.

What looks alike stays text: prices ($5), numbers (#1), faces (:)), remarks in brackets ([laughs]).
Each pattern begins where no match of it can have begun before, and no two parts in a row match the
same characters, so that a long word is read once.
"""

from __future__ import annotations

from typing import NamedTuple


class Notation(NamedTuple):
    """A way to write something that no translation changes."""

    name: str
    """Who uses it."""
    pattern: str
    example: str


_BEFORE = r"(?<![\w.@+/\\~%$#:|!=-])"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"

NOTATIONS = (
    Notation("Fluent", r"\{ [-$]?[A-Za-z][\w.-]{0,60}(?:\([^{}()]{0,60}\))? \}", "{ $user }"),
    Notation("Fluent, text", r"\{ \"[^\"{}]{0,60}\" \}", '{ "" }'),
    Notation("MessageFormat 2", r"\{[$#][\w.-]{1,60} [^{}]{1,60}\}", "{$n :number}"),
    Notation("GitHub Actions", r"\$\{\{[^{}]{0,60}\}\}", "${{ x }}"),
    Notation("several in a row", r"\{[^{}\s]{0,60}\}(?:/\{[^{}\s]{0,60}\})+", "{0}/{1}"),
    Notation(
        "java.text.ChoiceFormat", r"\{\w{1,60}, ?choice,[^{}]{0,200}\}", "{0,choice,0#no|1#a}"
    ),
    Notation("LaTeX, formula", r"(?<![\w$])\$[^$\s{(](?:[^$]{0,60}[^$\s])?\$(?![\w${(])", "$x^2$"),
    Notation("i18next, nesting", r"\$t\([\w.:-]{1,60}\)", "$t(key)"),
    Notation("make", r"\$\(\w{1,60}\)", "$(NAME)"),
    Notation("shell, PHP, Perl", r"(?<![\w$])\$[A-Za-z_]\w*(?![\w$])", "$NAME"),
    Notation("tools", r"(?<![\w$])\$\$\w{1,60}\$\$(?![\w$])", "$$name$$"),
    Notation("Vue I18n, links", r"@:\{?[\w.]{1,60}\}?", "@:key"),
    Notation("Handlebars in CSS", r"@\{\w{1,60}\}", "@{name}"),
    Notation("Weblate", r"@@PH\d{1,6}@@", "@@PH1@@"),
    Notation("tools", r"(?<![\w@])@@\w{1,60}@@(?![\w@])", "@@1@@"),
    Notation("Drupal; mentions", rf"{_BEFORE}@{{1,2}}[A-Za-z_]\w*(?![\w@])", "@name"),
    Notation("hosts", rf"{_BEFORE}[A-Za-z_]\w*@[A-Za-z_]\w*(?![\w.@])", "user@host"),
    Notation("mail, links", r"<(?:[\w.+-]+@[\w.-]+|https?://[^<>\s]+)>", "<name@example.org>"),
    Notation("Drupal", rf"(?<!\d\s){_BEFORE}%[a-z_]\w{{1,60}}(?![\w%])", "%user_name"),
    Notation("batch files", r"%~[a-z]{0,5}\d", "%~dp0"),
    Notation("tools", r"(?<![\w%])%%\w{1,60}%%(?![\w%])", "%%NAME%%"),
    Notation("Laravel, Rails", rf"{_BEFORE}:[a-z_]\w*(?![\w:`])", ":name"),
    Notation("chats", rf"{_BEFORE}:[A-Za-z_]\w*:(?![\w:`])", ":smile:"),
    Notation("tools", rf"{_BEFORE}::\w{{1,60}}::(?![\w:])", "::name::"),
    Notation("reStructuredText, roles", rf"{_BEFORE}:[a-z][\w:+-]*:`[^`]{{1,200}}`", ":func:`len`"),
    Notation("reStructuredText, links", r"(?<![\w`:])`[^`<>]{1,200}`__?(?!\w)", "`the dogs`_"),
    Notation("reStructuredText, names", r"(?<![\w|])\|[A-Za-z_]\w*\|(?![\w|])", "|name|"),
    Notation("i18next, old", r"(?<![A-Za-z0-9_])__\w{1,60}__(?![A-Za-z0-9_])", "__count__"),
    Notation("tools", r"(?<![\w#])#\w{1,60}#(?![\w#])|(?<![\w#])##\w{1,60}##(?![\w#])", "#name#"),
    Notation("tools", r"(?<![\w~])~[A-Za-z_]\w*~(?![\w~])", "~name~"),
    Notation("tools", r"(?<![\w^])\^[A-Za-z_]\w*\^(?![\w^])", "^name^"),
    Notation("tools", r"(?<![\w=])==[A-Z][A-Z0-9_]*==(?![\w=])", "==NAME=="),
    Notation("ERB, JSP", r"<%[^<>%]{0,100}%>", "<%= name %>"),
    Notation("PHP", r"<\?(?:php|=)(?:[^<>?]{0,100}\?>)?", "<?php"),
    Notation("templates", r"<<\w{1,60}>>", "<<name>>"),
    Notation(
        "WordPress",
        r"\[/?[a-z][\w-]{0,40}(?:\s+[\w-]{1,40}=\"[^\"\]]{0,100}\")+ ?/?\]",
        '[a id="1"]',
    ),
    Notation("wikis", r"\[\[[^\[\]]{1,100}\]\]", "[[name]]"),
    Notation("Markdown, notes", r"\[\^\w{1,20}\]", "[^1]"),
    Notation("tools", r"\[X\d{1,4}X\]", "[X7X]"),
    Notation("escapes", r"\\(?:[ntr](?![a-z])|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|\d)", "\\n"),
    Notation("LaTeX", r"\\[A-Za-z]{1,30}\{[^{}]{0,100}\}|\\\([^()]{0,100}\\\)", "\\ref{x}"),
    Notation("versions", r"(?<![\w.])v\d+(?:\.\d+)+(?![\w.]\w)", "v1.2.3"),
    Notation("addresses", rf"(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?![\w.]\w|\w)", "10.0.0.1"),
    Notation("options", r"(?<![\w-])--[a-z][\w-]*(?:=[^\s,;]+)?", "--option"),
    Notation("hidden files", r"~/\.[\w.-]*\w", "~/.bashrc"),
    Notation("calls", rf"{_BEFORE}[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\(\)", "foo.bar()"),
    Notation(
        "identifiers", rf"{_BEFORE}[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+(?![\w(])", "foo_bar"
    ),
)
"""In the order in which they are tried at a place."""

NOTATION_PATTERN = "|".join(notation.pattern for notation in NOTATIONS)
