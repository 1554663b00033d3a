"""Findings, and the checks of a corpus as a whole: its size, its languages, its alignment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mtkit.corpus.languages import is_supported, langid_code
from mtkit.corpus.misalignment import MIN_LINES, Passage
from mtkit.corpus.statistics import CorpusStatistics, Languages
from mtkit.report import plural

Status = Literal["passed", "warned", "failed"]
MAX_COPIED = 0.5
"""Share of lines with equal sides above which both files are in one language."""
MAX_MISALIGNED = 0.05
"""Share of misaligned lines above which a corpus fails."""
MIN_UNRELATED_LINES, MIN_TELLING_LENGTH = 5_000, 20
"""Lines, and median characters, from which unrelated files fail: a dictionary has too little."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    status: Status
    count: int
    """Pairs or places that have the fault."""
    checked: int
    """Pairs or places that were checked; a large corpus is sampled for some rules."""
    meaning: str
    advice: str
    setting: str | None = None
    """The setting that drops such pairs."""
    note: str = ""
    """Details, or why the check was not possible."""
    examples: list[dict[str, str]] = field(default_factory=list)
    """The first such pairs, as by `Pair.excerpt`."""


def check_size(pairs: int, min_pairs: tuple[int, int]) -> Finding:
    """Check that there are enough distinct pairs: below the bounds it fails, or warns."""
    least, enough = min_pairs
    status: Status = "failed" if pairs < least else "warned" if pairs < enough else "passed"
    is_small = status != "passed"
    note = f"{pairs:,} distinct: {least:,} are needed, {enough:,} recommended" if is_small else ""
    return Finding("few pairs", status, is_small, 1, "the corpus is small", "add pairs", note=note)


def check_lengths(message: str) -> Finding:
    """Report files of unequal length; `message` says how long they are, or is empty."""
    status: Status = "failed" if message else "passed"
    advice = "see `misalignment` for the line where they diverge"
    count = int(bool(message))
    return Finding("unequal files", status, count, 1, "lines are missing", advice, note=message)


def check_alignment(
    passages: list[Passage], places: Sequence[str], median_length: float
) -> Finding:
    """Check that line n of one file translates line n of the other.

    A few misaligned lines are a warning, unless the files are still misaligned at the end.
    `places`: file and line of each misaligned passage; `median_length`: of the longer side.
    """
    lines = sum(passage.count for passage in passages)
    moved = [passage for passage in passages if passage.shift != 0]
    count, note = sum(passage.count for passage in moved), "; ".join(map(_describe, moved, places))
    is_failed = count > MAX_MISALIGNED * lines or bool(passages[-1].shift)
    status: Status = "failed" if is_failed else "warned" if count else "passed"
    is_unrelated = moved == passages and passages[0].shift is None
    if lines < MIN_LINES:
        note = f"not checked: fewer than {MIN_LINES} pairs"
    elif is_unrelated and (lines < MIN_UNRELATED_LINES or median_length < MIN_TELLING_LENGTH):
        status, count = "warned", 0
        note = "not certain: the sides have too little in common; compare some lines yourself"
    meaning = "targets translate other lines than the sources beside them"
    advice = "a line was lost or added: correct the files there"
    return Finding("misalignment", status, count, lines, meaning, advice, note=note)


def _describe(passage: Passage, place: str) -> str:
    where = f"about {place}, for {passage.count:,} lines"
    if passage.shift is None:
        return f"{where}: no target near them translates these sources"
    lines = plural(abs(passage.shift), "line")
    return f"{where}: the targets seem to be {lines} {'earlier' if passage.shift < 0 else 'later'}"


def check_languages(
    statistics: CorpusStatistics, declared: Languages, copied: int, pairs: int
) -> Iterator[Finding]:
    """Check that the sides are in two languages, and in those that are declared.

    If both languages are declared, they may be the same, as for two spellings of one language. Of
    the `pairs`, `copied` have equal sides.
    """
    source, target = statistics.source.language, statistics.target.language
    note = ""
    if copied > MAX_COPIED * pairs if None in declared else 0 < copied == pairs:
        note = f"{copied:,} of {pairs:,} lines are the same on both sides"
    elif None in declared and source is not None and source == target:
        note = f"both are {source}"
    if note and None in declared:
        note += "; if this is intended, name both by --languages"
    status: Status = "failed" if note else "passed"
    meaning, advice = "both sides are in one language", "are these the right files?"
    yield Finding("one language twice", status, int(bool(note)), 1, meaning, advice, note=note)
    notes = []
    for side, language, code in zip(("source", "target"), (source, target), declared, strict=True):
        if code is not None and language not in (None, langid_code(code)) and is_supported(code):
            notes.append(f"{side} is {language}, not {code}")
    if declared != (None, None):
        status, note = "failed" if notes else "passed", "; ".join(notes)
        meaning, advice = "a side is not in its declared language", "are the sides swapped?"
        yield Finding("declared language", status, len(notes), 1, meaning, advice, note=note)
