"""Findings about whole corpora: their size, their languages, and whether the files match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mtkit.config.languages import language_code
from mtkit.corpus.languages import is_supported, langid_code
from mtkit.corpus.misalignment import MIN_LINES, Passage
from mtkit.corpus.rules import RULES, Rule
from mtkit.corpus.statistics import CorpusStatistics, Languages, SideStatistics

Status = Literal["passed", "warned", "failed"]
MIN_PAIRS = 100, 2_000
"""Pairs below which a training corpus fails, and below which there is a warning."""
MAX_COPIED = 0.5
"""Share of lines with equal sides above which both files are in one language."""
MIN_UNRELATED_LINES, MIN_TELLING_LENGTH = 5_000, 20
"""Pairs, and median characters of the longer side, from which unrelated files fail.

Below, as in a dictionary, the lines may have too little in common to tell.
"""
MAX_MISALIGNED, MAX_SHIFTED = 0.05, 0.01
"""Shares of the lines that may match no line near them or a shifted one, and a shifted one."""
MIN_VOTES_SHARE = 0.25
"""Share of the votes that a declared language needs: relatives take the rest."""
SERBO_CROATIAN = frozenset(["bs", "hr", "sr"])
"""Standards of one language, which language identification confuses."""


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
    rows: list[int] = field(default_factory=list)
    """The first pairs that have the fault: their places in the corpus, from 0."""


def rule_finding(rule: Rule, count: int, checked: int, rows: Sequence[int]) -> Finding:
    """Return the finding of a rule, with the status that its counts give it."""
    setting = f"batching.drop: [{rule.name}]" if rule in RULES else None
    status: Status = "passed" if not count or rule.is_harmless else "warned"
    if status == "warned" and count > rule.max_share * checked:
        status = "failed"
    return Finding(
        rule.name, status, count, checked, rule.meaning, rule.advice, setting, rows=list(rows)
    )


def check_size(pairs: int, min_pairs: tuple[int, int]) -> Finding:
    """Check that there are enough distinct pairs: below the bounds it fails, or warns."""
    least, enough = min_pairs
    status: Status = "failed" if pairs < least else "warned" if pairs < enough else "passed"
    few = status != "passed"
    note = f"{pairs:,} distinct: {least:,} are needed, {enough:,} recommended" if few else ""
    return Finding("few pairs", status, few, 1, "the corpus is small", "add pairs", note=note)


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

    `places`: file and line where each misaligned passage begins; `median_length`: characters of a
    line on the longer side.
    """
    lines = sum(passage.count for passage in passages)
    moved = [passage for passage in passages if passage.shift != 0]
    count, note = sum(passage.count for passage in moved), ""
    status: Status = "passed"
    if lines < MIN_LINES:
        note = f"not checked: fewer than {MIN_LINES} pairs"
    elif count:
        status = "warned" if _is_tolerable(passages, lines) else "failed"
        note = "; ".join(map(_describe, moved, places))
        is_unrelated = moved == passages and passages[0].shift is None
        if is_unrelated and (lines < MIN_UNRELATED_LINES or median_length < MIN_TELLING_LENGTH):
            status, count, moved = "warned", 0, []
            note = "not certain: the sides have too little in common; compare some lines yourself"
    return Finding(
        "misalignment",
        status,
        count,
        lines,
        "targets translate other lines than the sources beside them",
        "a line was lost or added: correct the files there",
        note=note,
        rows=[passage.first for passage in moved],
    )


def _is_tolerable(passages: list[Passage], lines: int) -> bool:
    """Return whether a model can learn from the rest, and the files are aligned again at the end.

    Corpora assembled from many documents have some in which a translation lost or gained a line.
    """
    unrelated = sum(passage.count for passage in passages if passage.shift is None)
    shifted = sum(passage.count for passage in passages if passage.shift)
    return (
        not passages[-1].shift
        and shifted <= MAX_SHIFTED * lines
        and shifted + unrelated <= MAX_MISALIGNED * lines
    )


def _describe(passage: Passage, place: str) -> str:
    where = f"about {place}, for {passage.count:,} lines"
    if passage.shift is None:
        return f"{where}: no target near them translates these sources"
    side = "earlier" if passage.shift < 0 else "later"
    lines = "1 line" if abs(passage.shift) == 1 else f"{abs(passage.shift)} lines"
    return f"{where}: the targets seem to be {lines} {side}"


def check_distinct_languages(
    statistics: CorpusStatistics, declared: Languages, copied: int, pairs: int
) -> Finding:
    """Check that the sides are in two languages; of the `pairs`, `copied` have equal sides.

    If both languages are declared, they may be the same, as for two spellings of one language.
    """
    source = statistics.source.language
    note = ""
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
    if not results:
        return
    wrong = sum(is_wrong for is_wrong, _ in results)
    yield Finding(
        "declared language",
        "failed" if wrong else "passed",
        wrong,
        len(results),
        "a side is not in its declared language",
        "are the sides swapped?",
        note="; ".join(note for _, note in results if note),
    )


def _declared(name: str, side: SideStatistics, code: str) -> tuple[bool, str]:
    """Return whether a side is in another language than declared, and what to say about it."""
    if not is_supported(code):
        return False, f"{name}: {code} cannot be identified"
    if side.likely_language is None:
        return False, f"{name}: not checked, too few long lines"
    language = langid_code(code)
    accepted = SERBO_CROATIAN if language in SERBO_CROATIAN else {language}
    votes = sum(side.votes[code] for code in accepted)
    if side.likely_language in accepted or votes >= MIN_VOTES_SHARE * side.votes.total():
        return False, ""
    return True, f"{name} is {side.likely_language}, not {code}"


def is_one_language(declared: Languages) -> bool:
    """Return whether both sides are declared to be in one language."""
    return None not in declared and language_code(declared[0]) == language_code(declared[1])
