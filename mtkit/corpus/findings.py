"""Findings, and the checks of a corpus as a whole: its size, its languages, its alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from mtkit.corpus.languages import is_supported, langid_code
from mtkit.corpus.misalignment import MIN_LINES, Passage
from mtkit.corpus.statistics import CERTAINTY, CorpusStatistics, Languages, SideStatistics
from mtkit.report import plural

Status = Literal["passed", "warned", "failed"]
MAX_COPIED = 0.5
"""If a larger share of lines has equal sides, both files are taken to be in one language."""
MAX_MISALIGNED = 0.05
"""Largest share of misaligned lines with which a corpus can pass."""
MIN_UNRELATED_LINES, MIN_TELLING_LENGTH = 5_000, 20
"""Fewest lines, and median characters, with which unrelated files fail; a dictionary has less."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    status: Status
    count: int
    """Number of pairs or places that have the fault."""
    checked: int
    """Number of pairs or places that were checked; some rules check only a sample."""
    meaning: str
    advice: str
    setting: str | None = None
    """The setting that drops such pairs."""
    note: str = ""
    """Details, or why the check was not possible."""
    examples: list[dict[str, str]] = field(default_factory=list)
    """Some faulty pairs, in the form of `Pair.excerpt`."""


def check_size(pairs: int, min_pairs: tuple[int, int]) -> Finding:
    """Fail a corpus with fewer distinct pairs than the first bound; warn below the second bound."""
    needed, enough = min_pairs
    note = f"{pairs:,} distinct pairs; {needed:,} are needed, {enough:,} recommended"
    name, meaning = "few pairs", "the corpus is small"
    if pairs >= enough:
        return Finding(name, "passed", 0, 1, meaning, "add pairs")
    status: Status = "failed" if pairs < needed else "warned"
    return Finding(name, status, 1, 1, meaning, "add pairs", note=note)


def check_files(note: str) -> Finding:
    """Fail unless `note` is empty; it describes files of different lengths."""
    meaning = "lines are missing"
    advice = "make the files equally long; if lines are shifted, `misalignment` names the first"
    status: Status = "failed" if note else "passed"
    return Finding("unequal files", status, int(bool(note)), 1, meaning, advice, note=note)


def check_alignment(
    passages: list[Passage], places: Sequence[str], median_length: float
) -> Finding:
    """Check that line n of one file translates line n of the other.

    Warn of a few misaligned lines, but fail if the files are still misaligned at their end.
    `places`: file and line of each misaligned passage; `median_length`: length of the longer side.
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
        note = "not certain, because the sides have too little in common; compare some lines"
    meaning = "a target translates another line than its source"
    advice = "a line was lost or added; correct the files there"
    return Finding("misalignment", status, count, lines, meaning, advice, note=note)


def _describe(passage: Passage, place: str) -> str:
    where = f"about {place}, for {plural(passage.count, 'line')}"
    if passage.shift is None:
        return f"{where}, no target nearby translates these sources"
    lines = plural(abs(passage.shift), "line")
    return f"{where}, the targets seem to be {lines} {'earlier' if passage.shift < 0 else 'later'}"


def check_languages(statistics: CorpusStatistics, declared: Languages) -> Finding:
    """Check that the sides are in two languages, and in the declared ones.

    If both languages are declared, they may be the same, as for two spellings of one language.
    """
    pairs, copied = len(statistics.sample), sum(it.source == it.target for it in statistics.sample)
    source, target = statistics.source, statistics.target
    failures, warnings = list[str](), list[str]()
    if copied > MAX_COPIED * pairs if None in declared else 0 < copied == pairs:
        failures.append(f"{copied:,} of {pairs:,} lines are the same on both sides")
    elif None in declared and source.language is not None and source.language == target.language:
        failures.append(f"both sides are {source.language}")
    sides = ("source", source, *declared), ("target", target, *declared[::-1])
    for name, side, code, other in sides:
        contradiction = _contradiction(side, code, other)
        if contradiction != "passed":
            notes = failures if contradiction == "failed" else warnings
            notes.append(f"{name} is {_likely(side)}, not {code}")
        elif code is None and side.share <= CERTAINTY:
            warnings.append(f"{name} is not certain: {_likely(side)}")
    note = "; ".join(failures + warnings)
    if note and None in declared:
        note += "; if this is right, declare both, such as --languages en ko"
    status: Status = "failed" if failures else "warned" if warnings else "passed"
    meaning, advice = "languages are not as expected", "are these the right files?"
    return Finding("languages", status, int(bool(note)), 1, meaning, advice, note=note)


def _contradiction(side: SideStatistics, declared: str | None, other: str | None) -> Status:
    """Return "failed" if a side is in the other side's language, "warned" if in a third language.

    Identification may confuse the declared language with a related one; if it does not support the
    declared language, a third language is not reported.
    """
    likely = side.likely_language
    if declared is None or likely in (None, langid_code(declared)):
        return "passed"
    is_swapped, is_known = likely == langid_code(other or ""), is_supported(declared)
    if is_swapped and is_known and side.language is not None:
        return "failed"
    is_rare = 2 * side.votes[langid_code(declared)] < side.votes[likely]
    return "warned" if is_rare and (is_known or is_swapped) else "passed"


def _likely(side: SideStatistics) -> str:
    if side.likely_language is None:
        return "unknown, as too few lines are long enough"
    return f"{side.likely_language} in {side.share:.0%} of lines"
