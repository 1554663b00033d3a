"""Find what no translation changes: URLs, addresses, paths, placeholders, tags, code, cues."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.corpus.characters import has_letters, is_word_character
from mtkit.decoding.text.words import UNSPACED_CHARACTERS
from mtkit.extras.protect.messages import QUOTED, Message, MessageText, Syntax, find_messages
from mtkit.extras.protect.notations import NOTATION_PATTERN

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
    r"|(?<![\d%])%[A-Za-z_]\w{1,60}%(?!\w)"
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
    r"(?<![\w`])``(?!\s)[^`]++(?<!\s)``(?![\w`])"
    r"|(?<![\w`])`(?!\s)(?:[^`']|'[^`']*')++(?<!\s)`(?![\w`'])"
)
_ATTRIBUTE = r"(?:disabled|selected|checked|required|hidden|readonly|multiple|open|controls)"
_TAG = re.compile(
    # Text in angle brackets is no tag without attributes: <no file was found>.
    rf"</?[A-Za-z][\w:.-]*(?:\s+{_ATTRIBUTE}\s*|\s[^<>=]*=[^<>]*|\s+)?/?>"
    r"|<(?:v|lang|c)[\w.]*\s[^<>]*>"  # voices and languages in WebVTT
    r"|<!--[^<>]*-->|<[\d:.]{5,20}>"
    r"|</?\d{1,4}/?>"  # numbered, as the codes of translation memories are (`tmx_codes.py`)
    r"|\{\\[^{}]*\}"  # Advanced SubStation Alpha
)
_SPAN_PATTERN = (
    rf"{_TAG.pattern}|{_CODE}|{_URL}|{_ADDRESS}|{NOTATION_PATTERN}|{_PLACEHOLDER}|{_ENTITY}"
    rf"|{_PATH}|{_NAME}"
)
_SPAN = re.compile(_SPAN_PATTERN)
_ARGUMENT = r"\{(?:[^{}]++|\{[^{}]*+\})*+\}"
_PATTERNS = {
    Syntax.PLAIN: _SPAN,
    Syntax.MESSAGE: re.compile(rf"{QUOTED}|{_ARGUMENT}|{_SPAN_PATTERN}"),
    Syntax.NUMBERED: re.compile(rf"{QUOTED}|{_ARGUMENT}|#|{_SPAN_PATTERN}"),
}
_MAY_BE_SPAN = re.compile(r"[@{%<\\/&`$#~|\[=]|\.\w|_\w|:\w|--|\(\)|v\d")
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


@dataclass(frozen=True)
class FoundSpan:
    """A part of a text that no translation changes, or a message, whose texts are translated."""

    start: int
    end: int
    message: Message | None = None

    @property
    def texts(self) -> Sequence[MessageText]:
        """The texts of a message."""
        return () if self.message is None else self.message.texts

    def shifted(self, offset: int) -> FoundSpan:
        """Return the span in a text that begins elsewhere."""
        message = None if self.message is None else self.message.shifted(offset)
        return FoundSpan(self.start + offset, self.end + offset, message)


def find_spans(text: str, syntax: Syntax = Syntax.PLAIN) -> list[FoundSpan]:
    """Return the URLs, addresses, paths, placeholders, tags and messages in a text, in order."""
    is_plain = syntax is Syntax.PLAIN
    if is_plain and not _MAY_BE_SPAN.search(text):  # most lines; much faster than the patterns
        return []
    messages = find_messages(text, has_quotes=not is_plain)
    if messages and is_plain:
        syntax = Syntax.MESSAGE
    pattern = _PATTERNS[syntax]
    # Messages are found first, because other patterns find braces within them.
    starts = [0, *(message.end for message in messages)]
    ends = [*(message.start for message in messages), len(text)]
    found: list[FoundSpan] = []
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        found += [FoundSpan(*match.span()) for match in pattern.finditer(text, start, end)]
        if number < len(messages):
            found.append(FoundSpan(end, messages[number].end, messages[number]))
    return found


def is_cue(text: str) -> bool:
    """Return whether a line is the first one of WebVTT, or has the times of a subtitle."""
    return _CUE.fullmatch(text) is not None


def find_outer_tags(text: str) -> tuple[int, int]:
    """Return where the text within the tags around a line begins and ends.

    If there are tags within it as well, or no letters, it is the whole text.
    """
    if "<" not in text and "{" not in text:
        return 0, len(text)
    tags = list(_TAG.finditer(text))
    start = 0
    first = 0
    while first < len(tags) and _may_precede(text[start : tags[first].start()]):
        start = tags[first].end()
        first += 1
    end = len(text)
    last = len(tags)
    while last > first and _AFTER_TEXT.fullmatch(text, tags[last - 1].end(), end):
        last -= 1
        end = tags[last].start()
    has_tag_within = last > first
    if has_tag_within or not has_letters(text[start:end]):
        return 0, len(text)
    return start, end


def _may_precede(text: str) -> bool:
    """Return whether the text may stand before the first tag: a list mark, a quote, a note."""
    return not any(map(is_word_character, text))
