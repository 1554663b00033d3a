"""What no translation changes: URLs, addresses, paths, placeholders, tags, code, subtitle cues.

A line that has nothing else is copied, and so are the tags around a line. `placeholders.py`
protects such spans within a sentence; `lost_spans` finds out which ones a translation lacks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.corpus.characters import has_letters, is_word_character
from mtkit.decoding.text.line import (
    Answer,
    Context,
    Copied,
    Part,
    Span,
    SplitSpan,
    normalised_prefix,
)
from mtkit.decoding.text.messages import QUOTED, Message, MessageText, Syntax, find_messages
from mtkit.decoding.text.sentences import UNSPACED_CHARACTERS
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.hints import PLACEHOLDERS

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
    rf"{_TAG.pattern}|{_CODE}|{_URL}|{_ADDRESS}|{_PLACEHOLDER}|{_ENTITY}|{_PATH}|{_NAME}"
)
_SPAN = re.compile(_SPAN_PATTERN)
_ARGUMENT = r"\{(?:[^{}]++|\{[^{}]*+\})*+\}"
_PATTERNS = {
    Syntax.PLAIN: _SPAN,
    Syntax.MESSAGE: re.compile(rf"{QUOTED}|{_ARGUMENT}|{_SPAN_PATTERN}"),
    Syntax.NUMBERED: re.compile(rf"{QUOTED}|{_ARGUMENT}|#|{_SPAN_PATTERN}"),
}
_MAY_BE_SPAN = re.compile(r"[@{%<\\/&`]|\.\w|__")
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
MAX_LOST_COUNTED = 20
"""Number of lost spans above which they are not counted as parts of words, to save time."""


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


def is_untranslatable(text: str, tokenizer: Tokenizer) -> bool:
    """Return whether there is nothing to translate in a text.

    It has no letters outside of spans, or only letters of scripts that the vocabulary lacks.
    """
    if not has_letters(text) or _CUE.fullmatch(text):
        return True
    rest = without_spans(text)
    return not has_letters(rest) or tokenizer.source_spelling.lacks_script_of(rest)


def without_spans(text: str) -> str:
    """Return the text with a space in place of each URL, address, path, placeholder and tag.

    Of a message stay the texts within it.
    """
    if not _MAY_BE_SPAN.search(text):  # most lines; much faster than the pattern below
        return text
    return _without(find_spans(text), text)


def _without(found: Sequence[FoundSpan], text: str) -> str:
    written: list[str] = []
    end = 0
    for span in found:
        written += [text[end : span.start], " "]
        for inner in span.texts:
            own = text[inner.start : inner.end]
            written += [_without(find_spans(own, inner.syntax), own), " "]
        end = span.end
    return "".join([*written, text[end:]])


def find_untranslatable(text: str) -> list[str]:
    """Return the URLs, addresses, paths, placeholders and tags in a text, in order.

    Of a message, return its skeleton, and what is found in the texts within it.
    """
    return _texts_of(find_spans(text), text)


def _texts_of(found: Sequence[FoundSpan], text: str) -> list[str]:
    texts: list[str] = []
    for span in found:
        if span.message is None:
            texts.append(text[span.start : span.end])
            continue
        texts.append("".join(span.message.skeleton(text)))
        for inner in span.texts:
            own = text[inner.start : inner.end]
            texts += _texts_of(find_spans(own, inner.syntax), own)
    return texts


def span_ranges(text: str) -> list[tuple[int, int]]:
    """Return where each URL, address, path, placeholder and tag in a text begins and ends."""
    if not _MAY_BE_SPAN.search(text):
        return []
    return [match.span() for match in _SPAN.finditer(text)]


def is_one_span(text: str) -> bool:
    """Return whether the text is one URL, address, path, placeholder or tag, or stands for one."""
    return _SPAN.fullmatch(text) is not None or text in PLACEHOLDERS


def lost_spans(spans: Sequence[str], translation: str) -> list[str]:
    """Return those of the spans of a line that its translation lacks."""
    if not spans:
        return []
    needed = Counter(spans)
    lost = needed - Counter(find_untranslatable(translation))
    if len(lost) <= MAX_LOST_COUNTED:
        for span in list(lost):
            # A span may be part of a word: "/proc" of "/proc-Dateisystem".
            if translation.count(span) >= needed[span]:
                del lost[span]
    return list(lost.elements())


def copy_outer_tags(spans: Sequence[Span], context: Context) -> list[SplitSpan]:
    """Copy the tags around the text of a span; translate everything after a prefix."""
    return [_split_off_tags(span) for span in spans]


def _split_off_tags(span: Span) -> SplitSpan:
    text = span.text
    is_plain = "<" not in text and "{" not in text
    if is_plain or normalised_prefix(span.line):
        return SplitSpan([span])
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
    if has_tag_within or not has_letters(text[start:end]) or end - start == len(text):
        return SplitSpan([span])
    inner = span.cut(start, end)
    begin = text.index(inner.text, start)
    before = Copied(text[:begin])
    after = Copied(text[begin + len(inner.text) :])
    parts: list[Part] = [before, inner, after]
    return SplitSpan(parts, _concatenate)


def _may_precede(text: str) -> bool:
    """Return whether the text may stand before the first tag: a list mark, a quote, a note."""
    return not any(map(is_word_character, text))


def _concatenate(answers: Sequence[Answer]) -> Answer:
    """Join answers without spaces, which the copied parts have themselves."""
    before, translated, after = answers
    links = [(word, len(before.text) + offset) for word, offset in translated.links]
    return Answer(before.text + translated.text + after.text, links)
