"""Find what no translation changes: URLs, addresses, paths, placeholders, tags, code, cues."""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Sequence
from typing import cast

from mtkit.corpus.characters import has_letters, is_letter, is_word_character
from mtkit.decoding.text.words import UNSPACED_CHARACTERS
from mtkit.extras.protect.messages import QUOTED, Syntax, find_messages
from mtkit.extras.protect.notations import NOTATION_PATTERN
from mtkit.extras.protect.own_patterns import find_matches
from mtkit.extras.protect.pairs import IN_WORD, MARK_PATTERN, FoundSpan, MarkSide, pair_up

# Each pattern begins where no match of it can have begun before, and no two parts in a row match
# the same characters, so that a long word is read once.
_AT_BEGIN = r"(?<![A-Za-z0-9_.@+/\\~%-])"
_AT_BEGIN_OF_WORD = r"(?<![\w.@+/\\~%-])"
_IN_URL = rf"[^\s<>\"“”‘’«»{{}}|\\^`{UNSPACED_CHARACTERS}]"
_URL = rf"{_AT_BEGIN}(?:[A-Za-z][A-Za-z0-9+.-]*://|mailto:|www\.){_IN_URL}+(?<![.,;:!?)\]'])"
_ADDRESS = rf"{_AT_BEGIN}[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
# A name of a file or a host may not end in a capital, because a space is often missing after a
# full stop: "He left.She came."
_NAME = rf"{_AT_BEGIN}(?:[A-Za-z0-9_-]+\.)+[a-z][a-z0-9]+(?![\w.@-])(?:/[\w./@+-]*)?"
_PATH = (
    rf"{_AT_BEGIN_OF_WORD}(?:~?/|\.\.?/)[\w@+-][\w./@+-]*(?<!\.)"
    rf"|{_AT_BEGIN_OF_WORD}(?:[A-Za-z]:[\\/]|\\\\)[^\s\"<>|?*]+(?<![.,;:!?)\]'])"
    rf"|{_AT_BEGIN_OF_WORD}(?:[\w.@+-]+/)+[\w@+-]*\.[A-Za-z]\w{{0,5}}(?![\w/])"
)
_PLACEHOLDER = (
    r"\{\{\{?[^{}]{0,60}\}?\}\}|\{%[^{}]{0,100}%\}|[$#%]?\{[^{}\s]{0,60}\}"
    r"|\{\w{1,60}, ?(?:number|date|time|duration|ordinal|spellout)(?:,[^{}]{0,60})?\}"
    r"|(?<![\d%])%(?:\(\w{1,60}\)|<\w{1,60}>|\d+\$)?[-+#]{0,3}\d*(?:\.\d+)?(?:hh?|ll?|[jztLZ])?"
    r"[A-Za-z@](?![A-Za-z0-9])"
    rf"|(?<![\d%])(?:%[A-Za-z_]\w{{1,60}}%)+(?!{IN_WORD})"
    r"|(?<![\d%])%\d(?!\d)"
    r"|(?<!%)%%(?!%)"
    r"|(?<![A-Za-z0-9_])__[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*__(?![A-Za-z0-9_])"
)
# An entity of a letter, or of an apostrophe, within a word is a part of that word.
_ENTITY = (
    r"&lt;/?[A-Za-z][\w:.-]{0,30}(?:\s[^<>&]{0,200})?/?&gt;"
    r"|(?<![A-Za-z])&(?:[A-Za-z][A-Za-z0-9]{1,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});(?![A-Za-z])"
    r"|&(?:nbsp|ensp|emsp|thinsp|lt|gt|amp|hellip|[mn]dash|#160|#[xX][aA]0);"
)
# Old texts of software quote `so': such quotes are no code.
_CODE = (
    rf"(?<!{IN_WORD})(?<!`)``(?!\s)[^`]++(?<!\s)``(?!{IN_WORD}|`)"
    rf"|(?<!{IN_WORD})(?<!`)`(?!\s)(?:[^`']|'[^`']*')++(?<!\s)`(?!{IN_WORD}|[`'])"
)
_ATTRIBUTE = r"(?:disabled|selected|checked|required|hidden|readonly|multiple|open|controls)"
_TAG = re.compile(
    # Text in angle brackets is no tag without attributes: <no file was found>.
    rf"</?[A-Za-z][\w:.-]*(?:\s+{_ATTRIBUTE}\s*|\s[^<>=]*=(?:\"[^\"<]*\"|'[^'<]*'|[^<>])*+|\s+)?/?>"
    r"|<(?:v|lang|c)[\w.]*\s[^<>]*>"  # voices and languages in WebVTT
    r"|<!--[^<>]*-->|<[\d:.]{5,20}>"
    r"|</?\d{1,4}/?>"  # numbered, as the codes of translation memories are (`tmx_codes.py`)
    r"|\{\\[^{}]*\}"  # Advanced SubStation Alpha
)
_SPAN_PATTERN = (
    rf"{_TAG.pattern}|{_CODE}|{_URL}|{_ADDRESS}|{NOTATION_PATTERN}|{_PLACEHOLDER}|{_ENTITY}"
    rf"|{_PATH}|{_NAME}"
)
_ENTITY_IN_WORD = r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});"
_IN_SENTENCE = rf"{_SPAN_PATTERN}|{_ENTITY_IN_WORD}|{MARK_PATTERN}"
_ARGUMENT = r"\{(?:[^{}]++|\{[^{}]*+\})*+\}"
_PATTERNS = {
    Syntax.PLAIN: re.compile(_IN_SENTENCE),
    Syntax.MESSAGE: re.compile(rf"{QUOTED}|{_ARGUMENT}|{_IN_SENTENCE}"),
    Syntax.NUMBERED: re.compile(rf"{QUOTED}|{_ARGUMENT}|#|{_IN_SENTENCE}"),
}
_IS_TAG = re.compile(r"[<&]|\{\\|\\[ntr](?![a-z])")
_TEXT_SIGNS = "&\"'’‘“”„‚«»‹›–—…"
"""Signs that are translated, also if they are written as entities."""
_MAY_BE_SPAN = re.compile(r"[@{%<\\/&`$#~|\[=*^]|\.\w|_\w|:\w|--|\(\)|v\d")
_CUE = re.compile(r"WEBVTT(?:\s.*)?|[\d:.,]+ --> [\d:.,]+(?: \w+:\S+)*", re.DOTALL)
"""The first line of WebVTT; the times of a cue, with its settings."""
_AFTER_TEXT = re.compile(r"[\s\"'”’»)\]♪*_]*")
"""What may stand between the tag after a text and the end of the line."""
PATTERNS_BY_NAME = {
    "span": _SPAN_PATTERN,
    "may_be_span": _MAY_BE_SPAN.pattern,
    "tag": _TAG.pattern,
    "cue": _CUE.pattern,
    "after_text": _AFTER_TEXT.pattern,
}
"""The patterns, for a program without mtkit."""


def find_spans(
    text: str, syntax: Syntax = Syntax.PLAIN, patterns: Sequence[str] = ()
) -> list[FoundSpan]:
    """Return what no translation changes in a text, and its messages, in order.

    `patterns`: those of `decoding.protect`.
    """
    is_plain = syntax is Syntax.PLAIN
    # Most lines have none, and this is much faster than the patterns.
    if is_plain and not patterns and not _MAY_BE_SPAN.search(text):
        return []
    # Messages are found first, because other patterns find braces within them.
    messages = find_messages(text, has_quotes=not is_plain)
    if messages and is_plain:
        syntax = Syntax.MESSAGE
    found = [FoundSpan(message.start, message.end, message.texts) for message in messages]
    if patterns:
        for start, end in _gaps(found, text):
            for first, last in find_matches(text[start:end], patterns):
                found.append(FoundSpan(start + first, start + last))
    pattern = _PATTERNS[syntax]
    for start, end in _gaps(found, text):
        matches = pattern.finditer(text, start, end)
        found += map(_read_match, matches)
    found.sort(key=_start)
    return pair_up(text, found)


def _gaps(spans: Sequence[FoundSpan], text: str) -> list[tuple[int, int]]:
    """Return where the text before, between and after some spans begins and ends."""
    ordered = sorted(spans, key=_start)
    starts = [0, *(span.end for span in ordered)]
    ends = [*(span.start for span in ordered), len(text)]
    return list(zip(starts, ends, strict=True))


def _start(span: FoundSpan) -> int:
    return span.start


def _read_match(match: re.Match[str]) -> FoundSpan:
    """Return the span that a pattern has found."""
    own = match[0]
    mark = cast("MarkSide | None", match.lastgroup)
    character = html.unescape(own) if own.startswith("&") else ""
    is_defined = character != own  # by HTML, which knows no &brandName;
    is_tag = mark is not None or bool(_IS_TAG.match(own) and is_defined)
    if len(character) != 1 or not (is_letter(character) or character in _TEXT_SIGNS):
        character = ""  # it is no text
    return FoundSpan(*match.span(), is_tag=is_tag, mark=mark, character=character)


def is_cue(text: str) -> bool:
    """Return whether a line is the first one of WebVTT, or has the times of a subtitle."""
    return _CUE.fullmatch(text) is not None


def find_outer_tags(text: str) -> tuple[int, int]:
    """Return where the text within the tags around a line begins and ends.

    If there are tags within it as well, or no letters, it is the whole text.
    """
    if "<" not in text and "{" not in text:
        return 0, len(text)
    tags = deque(_TAG.finditer(text))
    start = 0
    end = len(text)
    while tags and _may_precede(text[start : tags[0].start()]):
        tag = tags.popleft()
        start = tag.end()
    while tags and _AFTER_TEXT.fullmatch(text, tags[-1].end(), end):
        tag = tags.pop()
        end = tag.start()
    has_tag_within = len(tags) > 0
    if has_tag_within or not has_letters(text[start:end]):
        return 0, len(text)
    return start, end


def _may_precede(text: str) -> bool:
    """Return whether the text may stand before the first tag: a list mark, a quote, a note."""
    return not any(map(is_word_character, text))
