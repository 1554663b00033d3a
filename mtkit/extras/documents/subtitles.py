"""Subtitles (`.srt`, `.vtt`): lines whose sentence goes on in the next are translated together."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise

from mtkit.corpus.characters import first_letter, is_letter, is_small, is_space
from mtkit.decoding.text.words import UNSPACED, tokens_of
from mtkit.extras.documents.units import DocumentError, Replacement, Target, TextUnit

_TIMES = r"[ \t]*(?:\d+:)?\d+:\d\d[.,]\d+[ \t]*-->[^\n]*"
_CUE = re.compile(
    rf"^{_TIMES}\n(?P<text>(?:(?!(?:[ \t]*\d+[ \t\r]*\n)?{_TIMES})[ \t]*\S[^\n]*(?:\n|\Z))*)",
    re.MULTILINE,
)
"""The times of a cue, and the lines after them until a blank one or the next cue."""
_LINE = re.compile(
    r"[ \t]*(?P<dash>[-–—](?:[ \t]+|(?=[^\W\d_]|[<{])))?(?P<text>\S(?:[^\n]*\S)?)[ \t\r]*(?:\n|\Z)"
)
"""A line; a dash before it marks a speaker."""
_TAG = re.compile(r"<[^<>]*>|\{[^{}]*\}")
_END = re.compile(
    r"(?:(?<!\b[A-Z])(?<!\b[A-Z][a-z])(?<!\b[A-Z][a-z][a-z])\.|[!?…。！？♪:\]])[\"”’')\s]*\Z"
)
"""The end of a sentence; a short word with a capital, as `Mr.`, may be none."""
MAX_JOINED_LINES = 12
"""Most lines that are translated as one sentence."""


def read_subtitles(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each sentence, or for the lines up to the end of one.

    Raises:
        DocumentError: no line has the times of a cue.
    """
    joined: list[re.Match[str]] = []
    last_cue = ""
    for cue in _CUE.finditer(document):
        # A tag belongs to its cue: joined, its words could go to another one.
        is_alone = any(map(_TAG.search, (last_cue, cue["text"])))
        last_cue = cue["text"]
        for line in _LINE.finditer(document, *cue.span("text")):
            if joined and not _goes_on(joined, line, is_alone):
                yield _unit_of(joined)
                joined = []
            joined.append(line)
    if not joined:
        raise DocumentError(0, "no cue with times such as 00:01:02,500 --> 00:01:04,000")
    yield _unit_of(joined)


def _goes_on(lines: Sequence[re.Match[str]], following: re.Match[str], is_alone: bool) -> bool:
    """Return whether the sentence of the last line goes on in the following one.

    `is_alone`: the following line is of a cue that shares no sentence with the one before.
    """
    last = lines[-1]["text"]
    text = following["text"]
    is_full = len(lines) >= MAX_JOINED_LINES
    if is_full or following["dash"] or _END.search(_TAG.sub("", last)):
        return False
    is_in_same_cue = lines[-1].end() == following.start()
    if is_in_same_cue:
        return True
    if is_alone:
        return False
    letter = first_letter(text)
    begins_small = letter != "" and is_small(letter)
    return begins_small or last.endswith(",")


def _unit_of(lines: Sequence[re.Match[str]]) -> TextUnit:
    text = " ".join(line["text"] for line in lines)
    return TextUnit([text], partial(_write_lines, lines))


def _write_lines(
    lines: Sequence[re.Match[str]], translations: Sequence[str], target: Target
) -> Iterator[Replacement]:
    """Yield the lines: shares of the translation, as long as those of the source."""
    lengths = [len(line["text"]) for line in lines]
    for line, share in zip(lines, divide_text(translations[0], lengths), strict=True):
        # A blank line would end the cue.
        span = line.span("text") if share else line.span()
        yield Replacement(*span, share)


def divide_text(text: str, lengths: Sequence[int]) -> list[str]:
    """Divide a text between words into parts with such shares of its length.

    The last parts are empty if there are fewer words. In a script without spaces, each letter is a
    word, with the signs after it.
    """
    starts = [start for start, _ in tokens_of(text) if _is_break(text, start)]
    ends = list(accumulate(lengths))
    scale = ends[-1] / max(1, len(text))
    parts: list[str] = []
    last = -1
    for start, end in pairwise([*starts, len(text)]):
        # A word belongs to the part in which its middle is.
        middle = (start + end) / 2
        part = bisect(ends, middle * scale)
        if part != last:
            parts.append("")
            last = part
        parts[-1] += text[start:end]
    parts += [""] * (len(lengths) - len(parts))
    return [part.strip() for part in parts]


def _is_break(text: str, start: int) -> bool:
    """Return whether a line may begin with the token that begins here."""
    if start == 0 or is_space(text[start - 1]):
        return True
    return is_letter(text[start]) and UNSPACED.search(text, start - 1, start + 1) is not None
