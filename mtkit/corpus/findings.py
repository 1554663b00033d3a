"""Findings, and the checks of a corpus as a whole: its size, its languages, its alignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mtkit.config.language_codes import describe_language
from mtkit.corpus.languages import is_supported, langid_code
from mtkit.corpus.misalignment import MIN_LINES, Passage
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import Fault
from mtkit.corpus.statistics import CERTAINTY, CorpusStatistics, Languages, SideStatistics
from mtkit.report import plural

Status = Literal["passed", "warned", "failed"]
_STATUSES: Sequence[Status] = ("passed", "warned", "failed")
"""From the best to the worst."""
MAX_EXAMPLES = 3
"""Number of faulty pairs that a finding shows at most."""
MAX_COPIED = 0.5
"""If a larger share of lines has equal sides, both files are taken to be in one language."""
MAX_MISALIGNED = 0.05
"""Largest share of misaligned lines with which a corpus can pass."""
MIN_UNRELATED_LINES = 5_000
"""Fewest lines with which unrelated files fail; in fewer lines the result is not reliable."""
MIN_TELLING_LENGTH = 20
"""Smallest median length, in characters, with which they fail; a dictionary has shorter lines."""


@dataclass
class FaultyPairs:
    """The number of pairs with a fault, and the first of them."""

    count: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)
    """Some of the pairs, in the form of `Pair.excerpt`."""

    def add(self, pair: Pair, locate: Callable[[str], int] = lambda text: 0) -> None:
        """Count a pair, and keep it as an example unless there are enough.

        `locate` returns the place in a text that the example should show.
        """
        self.count += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(pair.excerpt(locate(pair.source), locate(pair.target)))


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

    @classmethod
    def of_corpus(
        cls, name: str, status: Status, note: str, *, meaning: str, advice: str
    ) -> Finding:
        """Return a finding about a corpus as a whole; `note` is empty if it passes."""
        count = int(status != "passed")
        return cls(name, status, count, checked=1, meaning=meaning, advice=advice, note=note)

    @classmethod
    def of_pairs(cls, fault: Fault, faulty: FaultyPairs, checked: int) -> Finding:
        """Return the finding about the pairs that have a fault."""
        status: Status = "passed"
        if faulty.count > fault.min_share * checked:
            status = "warned"
        if faulty.count > fault.max_share * checked:
            status = "failed"
        return cls(
            name=fault.name,
            status=status,
            count=faulty.count,
            checked=checked,
            meaning=fault.meaning,
            advice=fault.advice,
            examples=faulty.examples,
        )


def merge_findings(findings: Sequence[Finding], names: Sequence[str]) -> Finding:
    """Return one finding about all corpora of a mix: the worst status, and the sums of counts.

    `findings`: the same check of one corpus or of several, whose names are `names`. The note says
    which corpora have the fault.
    """
    if len(findings) == 1:
        return findings[0]
    worst = max(findings, key=lambda finding: _STATUSES.index(finding.status))
    notes: list[str] = []
    for finding, name in zip(findings, names, strict=True):
        if finding.status != "passed":
            pairs = f"{finding.count:,} of {plural(finding.checked, 'pair')}"
            notes.append(f"{name}: {finding.note or pairs}")
    return replace(
        worst,
        count=sum(finding.count for finding in findings),
        checked=sum(finding.checked for finding in findings),
        note="; ".join(notes),
    )


def check_size(pairs: int, min_pairs: tuple[int, int]) -> Finding:
    """Fail a corpus with fewer distinct pairs than the first bound; warn below the second bound."""
    needed, enough = min_pairs
    status: Status = "passed"
    if pairs < enough:
        status = "warned" if pairs >= needed else "failed"
    note = f"{pairs:,} distinct pairs; {needed:,} are needed, {enough:,} recommended"
    return Finding.of_corpus(
        name="few pairs",
        status=status,
        note="" if status == "passed" else note,
        meaning="the corpus is small",
        advice="add pairs",
    )


def check_files(note: str) -> Finding:
    """Return the finding about files of unequal length.

    `note`: how long the files are; empty if they are equally long, which passes.
    """
    return Finding.of_corpus(
        name="unequal files",
        status="failed" if note else "passed",
        note=note,
        meaning="lines are missing",
        advice="make the files equally long; if lines are shifted, `misalignment` names the first",
    )


def check_alignment(
    passages: list[Passage], places: Sequence[str], median_length: float
) -> Finding:
    """Check that line n of one file translates line n of the other.

    Warn of a few misaligned lines, but fail if the files are still misaligned at their end.
    `places`: file and line of each misaligned passage; `median_length`: length of the longer side.
    """
    lines = sum(passage.count for passage in passages)
    misaligned = [passage for passage in passages if passage.shift != 0]
    count = sum(passage.count for passage in misaligned)
    note = "; ".join(map(_describe, misaligned, places))
    is_shifted_at_end = passages[-1].shift not in (0, None)

    status: Status = "passed"
    if count:
        status = "warned"
    if count > MAX_MISALIGNED * lines or is_shifted_at_end:
        status = "failed"

    are_unrelated = misaligned == passages and passages[0].shift is None
    is_short = lines < MIN_UNRELATED_LINES or median_length < MIN_TELLING_LENGTH
    if lines < MIN_LINES:
        note = f"not checked: fewer than {MIN_LINES} pairs"
    elif are_unrelated and is_short:
        status = "warned"
        count = 0
        note = "not certain, because the sides have too little in common; compare some lines"
    return Finding(
        name="misalignment",
        status=status,
        count=count,
        checked=lines,
        meaning="a target translates another line than its source",
        advice="a line was lost or added; correct the files there",
        note=note,
    )


def _describe(passage: Passage, place: str) -> str:
    """Say where a misaligned passage is, and where its translations are."""
    where = f"about {place}, for {plural(passage.count, 'line')}"
    if passage.shift is None:
        return f"{where}, no target nearby translates these sources"
    distance = plural(abs(passage.shift), "line")
    direction = "earlier" if passage.shift < 0 else "later"
    return f"{where}, the targets seem to be {distance} {direction}"


def check_languages(
    statistics: CorpusStatistics, declared: Languages, *, is_tagged: bool = False
) -> Finding:
    """Check that the sides are in two languages, and in the declared ones.

    If both languages are declared, they may be the same, as for two spellings of one language.
    `is_tagged`: whether the corpus is one of several languages, which has a target tag.
    """
    failures: list[str] = []
    warnings: list[str] = []
    equal_sides = _describe_equal_sides(statistics, declared)
    if equal_sides:
        failures.append(equal_sides)
    declared_source, declared_target = declared
    for name, side, code, other_code in (
        ("source", statistics.source, declared_source, declared_target),
        ("target", statistics.target, declared_target, declared_source),
    ):
        found = _describe_side(side)
        if code is None:
            if side.share <= CERTAINTY:
                warnings.append(f"{name} is not certain: {found}")
            continue
        contradiction = _contradiction(side, code, other_code)
        if contradiction == "failed":
            failures.append(f"{name} is {found}, not {describe_language(code)}")
        elif contradiction == "warned":
            warnings.append(f"{name} is {found}, not {describe_language(code)}")

    status: Status = "passed"
    if warnings:
        status = "warned"
    if failures:
        status = "failed"
    note = "; ".join(failures + warnings)
    if note and None in declared:
        if is_tagged:
            note += "; if this is right, use the code of the target language as its tag"
        else:
            note += "; if this is right, declare both, such as --languages en ko"
    return Finding.of_corpus(
        name="languages",
        status=status,
        note=note,
        meaning="languages are not as expected",
        advice="are these the right files?",
    )


def _describe_equal_sides(statistics: CorpusStatistics, declared: Languages) -> str:
    """Say if both sides seem to be the same file, or in one language; empty if not."""
    pairs = len(statistics.sample)
    copied = sum(pair.source == pair.target for pair in statistics.sample)
    are_declared = None not in declared
    # Declared spellings of one language, such as en-GB and en-US, may share most of their lines.
    is_copy = (0 < copied == pairs) if are_declared else (copied > MAX_COPIED * pairs)
    if is_copy:
        return f"{copied:,} of {pairs:,} lines are the same on both sides"
    source, target = statistics.source.language, statistics.target.language
    if not are_declared and source is not None and source == target:
        return f"both sides are {describe_language(source)}"
    return ""


def _contradiction(side: SideStatistics, declared: str, other: str | None) -> Status:
    """Return "failed" if a side is in the other side's language, "warned" if in a third language.

    Identification may confuse the declared language with a related one; if it does not support the
    declared language, a third language is not reported.
    """
    likely = side.likely_language
    if likely is None or likely == langid_code(declared):
        return "passed"
    is_swapped = likely == langid_code(other or "")
    is_known = is_supported(declared)
    if is_swapped and is_known and side.language is not None:
        return "failed"
    # A related language is about as frequent as the declared one.
    is_rare = 2 * side.votes[langid_code(declared)] < side.votes[likely]
    return "warned" if is_rare and (is_known or is_swapped) else "passed"


def _describe_side(side: SideStatistics) -> str:
    """Say in which language a side seems to be."""
    if side.likely_language is None:
        return "unknown, as too few lines are long enough"
    return f"{describe_language(side.likely_language)} in {side.share:.0%} of lines"
