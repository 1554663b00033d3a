"""Findings, and the checks of a corpus as a whole: its size, its languages, its alignment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mtkit.corpus.languages import is_supported, langid_code
from mtkit.corpus.misalignment import MIN_LINES, Passage
from mtkit.corpus.statistics import CorpusStatistics, Languages, SideStatistics

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
    lines = "1 line" if abs(passage.shift) == 1 else f"{abs(passage.shift)} lines"
    return f"{where}: the targets seem to be {lines} {'earlier' if passage.shift < 0 else 'later'}"


def check_distinct_languages(
    statistics: CorpusStatistics, declared: Languages, copied: int, pairs: int
) -> Finding:
    """Check that the sides are in two languages; of the `pairs`, `copied` have equal sides.

    If both languages are declared, they may be the same, as for two spellings of one language.
    """
    source, note = statistics.source.language, ""
    if copied > MAX_COPIED * pairs if None in declared else 0 < copied == pairs:
        note = f"{copied:,} of {pairs:,} lines are the same on both sides"
    elif None in declared and source is not None and source == statistics.target.language:
        note = f"both are {source}"
    if note and None in declared:
        note += "; if this is intended, name both by --languages"
    status: Status = "failed" if note else "passed"
    meaning, advice = "both sides are in one language", "are these the right files?"
    return Finding("one language twice", status, int(bool(note)), 1, meaning, advice, note=note)


def check_declared_languages(
    statistics: CorpusStatistics, declared: Languages
) -> Iterator[Finding]:
    """Check that the sides are in the declared languages, if any is declared."""
    sides = ("source", statistics.source, declared[0]), ("target", statistics.target, declared[1])
    results = [_declared(name, side, code) for name, side, code in sides if code is not None]
    if results:
        wrong = sum(is_wrong for is_wrong, _ in results)
        status: Status = "failed" if wrong else "passed"
        note = "; ".join(note for _, note in results if note)
        meaning, advice = "a side is not in its declared language", "are the sides swapped?"
        yield Finding("declared language", status, wrong, len(results), meaning, advice, note=note)


def _declared(name: str, side: SideStatistics, code: str) -> tuple[bool, str]:
    """Return whether a side is in another language than declared, and what to say about it."""
    if not is_supported(code):
        return False, f"{name}: {code} cannot be identified"
    if side.likely_language is None:
        return False, f"{name}: not checked, too few long lines"
    is_wrong = side.language not in (None, langid_code(code))
    return is_wrong, f"{name} is {side.language}, not {code}" if is_wrong else ""
