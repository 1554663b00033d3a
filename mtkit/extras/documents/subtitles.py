"""Subtitles (`.srt`, `.vtt`): cues whose sentence goes on in the next are translated together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from mtkit.corpus.characters import first_letter, is_small
from mtkit.extras.documents.shares import divide_text
from mtkit.extras.documents.units import DocumentError, Replacement, Target, TextUnit, find_line_end

_TIMES = r"[ \t]*(?:\d+:)?\d+:\d\d[.,]\d+[ \t]*-->[^\n]*"
_CUE = re.compile(
    rf"^{_TIMES}\n(?P<text>(?:(?!(?:[ \t]*\d+[ \t\r]*\n)?{_TIMES})[ \t]*\S[^\n]*(?:\n|\Z))*)",
    re.MULTILINE,
)
"""The times of a cue, and the lines after them until a blank one or the next cue."""
_LINE = re.compile(r"[ \t]*(?P<text>\S(?:[^\n]*\S)?)")
_SPEECH = re.compile(
    r"^[ \t]*[-–—][ \t]*(?P<text>(?:<[^<>\n]*>|\{[^{}\n]*\})*\w(?:[^\n]*\S)?)", re.MULTILINE
)
_TAG = re.compile(r"<[^<>]*>|\{[^{}]*\}")
_END = re.compile(r"[.!?…。！？:\"”’')\]♪]\Z")
MAX_JOINED_CUES = 6
"""Most cues that are translated as one sentence."""


Cue = Sequence[re.Match[str]]
"""The lines of a subtitle."""


def read_subtitles(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each sentence, and for each line of a dialogue.

    Raises:
        DocumentError: no line has the times of a cue.
    """
    if not _CUE.search(document):
        raise DocumentError(0, "no cue with times such as 00:01:02,500 --> 00:01:04,000")
    joined: list[Cue] = []
    for cue in _read_cues(document):
        if joined and not _goes_on(joined, cue):
            yield _unit_of(joined)
            joined = []
        joined.append(cue)
    if joined:
        yield _unit_of(joined)


def _read_cues(document: str) -> Iterator[Cue]:
    """Yield the lines of each cue; the lines of a dialogue one by one, without their dashes."""
    for cue in _CUE.finditer(document):
        start, end = cue.span("text")
        lines = list(_LINE.finditer(document, start, end))
        speeches = list(_SPEECH.finditer(document, start, end))
        is_dialogue = len(lines) > 1 and len(lines) == len(speeches)
        if is_dialogue:
            for speech in speeches:
                yield [speech]
        elif lines:
            yield lines


def _goes_on(cues: Sequence[Cue], following: Cue) -> bool:
    """Return whether the sentence of the last cue goes on in the following one."""
    last = " ".join(line["text"] for line in cues[-1])
    next_text = " ".join(line["text"] for line in following)
    # A tag belongs to its cue: joined, its words could go to another one.
    if _TAG.search(last) or _TAG.search(next_text):
        return False
    if len(cues) == MAX_JOINED_CUES or _END.search(last):
        return False
    if following[0].re is _SPEECH:  # another speaker
        return False
    letter = first_letter(next_text)
    begins_small = letter != "" and is_small(letter)
    return begins_small or last.endswith(",")


def _unit_of(cues: Sequence[Cue]) -> TextUnit:
    # The model reads a sentence as one line, without the ends of the lines of subtitles.
    lines = [line["text"] for cue in cues for line in cue]
    lengths = [len(line) for line in lines]
    return TextUnit([" ".join(lines)], partial(_write_cues, cues, lengths))


def _write_cues(
    cues: Sequence[Cue],
    lengths: Sequence[int],
    translations: Sequence[str],
    target: Target,
) -> Iterator[Replacement]:
    """Yield the lines of each cue: shares of the translation, as long as those of the source."""
    divided = iter(divide_text(translations[0], lengths))
    for cue in cues:
        start = cue[0].start("text")
        end = cue[-1].end("text")
        document = cue[0].string
        line_end = find_line_end(document[start:end])
        lines = islice(divided, len(cue))
        # A blank line would end the cue.
        yield Replacement(start, end, line_end.join(filter(None, lines)))
