"""What no translation changes: URLs, addresses, paths, placeholders, tags, cues of subtitles.

A line that has nothing else is copied, and so are the tags around a line. Such a span within a
sentence goes through the model, which may lose it; `lost_spans` finds out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

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
from mtkit.decoding.text.sentences import UNSPACED_CHARACTERS
from mtkit.tokenizer.codec import Tokenizer

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
    rf"{_AT_BEGIN_OF_WORD}(?:~?/|\.\.?/)[\w@+-][\w./@+-]*"
    rf"|{_AT_BEGIN_OF_WORD}(?:[A-Za-z]:[\\/]|\\\\)[^\s\"<>|?*]+(?<![.,;:!?)\]'])"
    rf"|{_AT_BEGIN_OF_WORD}(?:[\w.@+-]+/)+[\w@+-]*\.[A-Za-z]\w{{0,5}}(?![\w/])"
)
_PLACEHOLDER = (
    r"\{\{[^{}]{0,60}\}\}|[$#%]?\{[^{}\s]{0,60}\}"
    r"|(?<![\d%])%(?:\(\w{1,60}\)|\d+\$)?[-+#]{0,3}\d*(?:\.\d+)?(?:hh?|ll?|[jztL])?"
    r"[sdiufFeEgGxXoc@](?![A-Za-z0-9])"
    r"|(?<![\d%])%\d(?!\d)"
)
_TAG = re.compile(
    r"</?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?>|<!--[^<>]*-->|<[\d:.]{5,20}>"
    r"|\{\\[^{}]*\}"  # Advanced SubStation Alpha
)
_SPAN = re.compile(rf"{_TAG.pattern}|{_URL}|{_ADDRESS}|{_PLACEHOLDER}|{_PATH}|{_NAME}")
_MAY_BE_SPAN = re.compile(r"[@{%<\\/]|\.\w")
_CUE = re.compile(r"WEBVTT(?:\s.*)?|[\d:.,]+ --> [\d:.,]+(?: \w+:\S+)*", re.DOTALL)
"""The first line of WebVTT; the times of a cue, with its settings."""
_AFTER_TEXT = re.compile(r"[\s\"'”’»)\]♪*_]*")
"""What may stand between the tag after a text and the end of the line."""


def is_untranslatable(text: str, tokenizer: Tokenizer) -> bool:
    """Return whether there is nothing to translate in a text.

    It has no letters outside of spans, or only letters of scripts that the vocabulary lacks.
    """
    if not has_letters(text) or _CUE.fullmatch(text):
        return True
    rest = without_spans(text)
    return not has_letters(rest) or tokenizer.source_spelling.lacks_script_of(rest)


def without_spans(text: str) -> str:
    """Return the text with a space in place of each URL, address, path, placeholder and tag."""
    if not _MAY_BE_SPAN.search(text):  # most lines; much faster than the pattern below
        return text
    return _SPAN.sub(" ", text)


def find_untranslatable(text: str) -> list[str]:
    """Return the URLs, addresses, paths, placeholders and tags in a text, in order."""
    if not _MAY_BE_SPAN.search(text):
        return []
    return [match[0] for match in _SPAN.finditer(text)]


def is_one_span(text: str) -> bool:
    """Return whether the text is one URL, address, path, placeholder or tag."""
    return _SPAN.fullmatch(text) is not None


def lost_spans(spans: Sequence[str], translation: str) -> list[str]:
    """Return those of the spans of a line that its translation lacks."""
    if not spans:
        return []
    lost = Counter(spans) - Counter(find_untranslatable(translation))
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
