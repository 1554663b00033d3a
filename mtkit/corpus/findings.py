"""What `mtkit check` looks for: names of findings, what they mean, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mtkit.batching.encode import Shown, shown
from mtkit.config.batching import DropRule
from mtkit.config.languages import language_code
from mtkit.corpus.languages import can_be_told, told_as
from mtkit.corpus.misalignment import LEAST_LINES, Passage
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import ALL_RULES
from mtkit.corpus.statistics import Side, Usual

Languages = tuple[str | None, str | None]
"""Codes for source and target, where they are known."""
Status = Literal["passed", "warned", "failed"]
EXAMPLES = 3
TOO_MANY = 0.5
"""A corpus of which a larger share has one fault is no corpus."""
NO_TEXT = 0.1
"""A file is no text where more of its lines hold what is none."""
ENOUGH = 100, 2_000
"""Pairs, below which a corpus is nothing to train on, or little."""
UNRELATED_LINES = 5_000
"""Pairs enough to say that nothing of one side goes with anything of the other."""
TELLING_LENGTH = 20
"""Characters: lines that are shorter, as the words of a dictionary, have too little in common."""
ASTRAY_SHARE, SHIFTED_SHARE = 0.05, 0.01
"""A corpus may hold so many lines that belong to others, or to none near them, and so many of the
former alone: the rest teaches what they mean.
"""
NEAR_KIN = 0.25
"""Of the votes for a side's language: one that has so many may be meant."""

ONE_BY_SPEECH = frozenset(["bs", "hr", "sr"])
"""What is written in one of these may well be taken for another."""

MEANINGS: dict[str, str] = {
    "unequal files": "where they part, drift says, if anything can: mend the files there",
    "drift": "lines belong to other lines: one was lost or added before; mend the files there",
    "no text": "not UTF-8, read as U+FFFD: convert the files (by iconv, from UTF-16 or LATIN1)",
    "few pairs": "bring more",
    "one language twice": "both sides are in one language, or the same text: name the right files",
    "declared language": "a side is not in the language that was named: are the sides swapped?",
    "blank": "a side holds nothing: always dropped",
    "long": "over 150 words or 1,000 characters: batching.max_length drops by subwords",
    "uneven": "one side is far longer than is usual here: a part is missing, or another sentence",
    "glued": "a word of over 50 characters: words glued together, or no words",
    "letters": "hardly a letter or digit among signs: nothing to learn from",
    "digits": "mostly digits: a table, a list of numbers",
    "numbers": "the numbers of one side contradict the other's",
    "links": "the sides have unlike links or addresses",
    "markup": "tags, entities, paths of titles, or placeholders of one side: take them out",
    "mojibake": "read in a wrong encoding, or characters lost: convert the file anew",
    "script": "letters of a script that is not the side's",
    "language": "surely another language than the side's",
    "repetition": "one side says the same again and again: a machine's work, often",
    "copied": "not translated: the letters of both sides are the same",
    "brackets": "one side has other brackets, or is a quotation alone: often free, not wrong",
    "ending": "a question that is none on the other side, or no full stop: often free, not wrong",
    "overlap": "the source is in the validation or test set too: scores would be too good",
    "repeated pairs": "the same pair again: it would weigh more",
    "repeated sources": "sources with several translations: never split them between corpora",
    "repeated targets": "targets of several sources",
    "quoted cells": "as spreadsheets write them, their marks doubled: name a .csv with --columns",
    "spaces": "spaces at ends, tabs, or several in a row: the tokenizer mends them",
    "unicode forms": "characters that NFKC changes, and the tokenizer with it",
}
SETTINGS: dict[str, str] = {
    "long": "batching.max_length",
    "repeated pairs": "batching.deduplicate: true",
    **{rule: f"batching.drop: [{rule}]" for rule in ALL_RULES},
}
HARMLESS = frozenset(["repeated sources", "repeated targets", "spaces", "unicode forms"])
"""Told, and no reason to warn."""
WORTH_DROPPING: list[DropRule] = [r for r in ALL_RULES if r not in ("brackets", "ending")]
"""Rules that seldom accuse a good translation."""
NO_REFUSAL = frozenset(["repeated pairs", "long", "brackets", "ending", "markup"])
"""However many there are, they are in order, or what is left without them is a corpus."""
CORPUS_FAULTS = frozenset(["unequal files", "drift", "one language twice", "declared language"])
"""One is one too many."""


@dataclass(frozen=True)
class Finding:
    """One row of the report."""

    name: str
    status: Status
    count: int
    """Pairs, or places."""
    judged: int
    """Pairs that it was looked for in: fewer than all where a sample tells enough."""
    meaning: str
    """What it means, and what to do."""
    setting: str | None
    """The setting that drops such pairs."""
    examples: list[Shown] = field(default_factory=list)
    note: str = ""
    """What was found, in words; or what could not be judged."""


def finding(
    name: str,
    count: int,
    judged: int,
    examples: Sequence[Pair] = (),
    note: str = "",
    status: Status | None = None,
) -> Finding:
    """The finding, with the status that its count gives it where none is given."""
    if status is None:
        if not count or name in HARMLESS:
            status = "passed"
        else:
            most = NO_TEXT if name == "no text" else TOO_MANY
            failed = name in CORPUS_FAULTS or (name not in NO_REFUSAL and count > most * judged)
            status = "failed" if failed else "warned"
    pairs = [shown(pair) for pair in examples[:EXAMPLES]]
    return Finding(name, status, count, judged, MEANINGS[name], SETTINGS.get(name), pairs, note)


def of_files(
    unequal: str, moved: list[Passage], examples: Sequence[Pair], length: float
) -> Iterator[Finding]:
    """Whether the lines of the files belong together; `examples`: where passages begin.

    `length`: characters of a line of the longer side, the median.
    """
    yield finding("unequal files", int(bool(unequal)), 1, note=unequal)
    lines = sum(passage.count for passage in moved)
    astray = [passage for passage in moved if passage.shift != 0]
    if lines < LEAST_LINES:
        yield finding("drift", 0, 0, note=f"fewer than {LEAST_LINES} pairs do not tell")
    elif (
        astray == moved
        and moved[0].shift is None
        and (lines < UNRELATED_LINES or length < TELLING_LENGTH)
    ):
        note = "nothing tells that lines belong together, as too little is alike: look at some"
        yield finding("drift", 0, 0, note=note, status="warned")
    else:
        count = sum(passage.count for passage in astray)
        told = zip(astray, examples, strict=False)
        note = "; ".join(_astray(passage, pair) for passage, pair in told)
        status: Status | None = "warned" if count and _is_borne(moved, lines) else None
        yield finding("drift", count, lines, examples, note, status)


def _is_borne(moved: list[Passage], lines: int) -> bool:
    """Whether so little is astray that a model learns from the rest.

    Texts that were put together have some whose translation lost a line and gained another; where
    the shift lasts to the end, the files themselves did.
    """
    unrelated = sum(passage.count for passage in moved if passage.shift is None)
    shifted = sum(passage.count for passage in moved if passage.shift)
    return (
        not moved[-1].shift
        and shifted <= SHIFTED_SHARE * lines
        and shifted + unrelated <= ASTRAY_SHARE * lines
    )


def _astray(passage: Passage, first: Pair) -> str:
    where = f"about {first.where}, for {passage.count:,} lines"
    if passage.shift is None:
        return f"{where}: no target near them belongs to these sources"
    side = "earlier" if passage.shift < 0 else "later"
    return f"{where}: their targets seem to be {abs(passage.shift)} {side}"


def of_size(pairs: int, enough: tuple[int, int]) -> Iterator[Finding]:
    """`enough`: pairs, below which it fails, and below which there is a warning."""
    status: Status = "failed" if pairs < enough[0] else "warned" if pairs < enough[1] else "passed"
    few = status != "passed"
    bounds = f"under {enough[1]:,} are little, under {enough[0]:,} nothing"
    note = f"{pairs:,} different ones: {bounds}" if few else ""
    yield finding("few pairs", int(few), 1, note=note, status=status)


def of_languages(usual: Usual, named: Languages, same: int, pairs: int) -> Iterator[Finding]:
    """`named`: the codes that the sides are said to be in; of `pairs`, `same` have equal sides.

    Where both are named, they are judged by their names, which may be one: of two ways to write a
    language many lines are right to be equal.
    """
    source, target = usual.languages  # near kin share the votes
    is_one = source == target is not None and None in named
    is_same = same > TOO_MANY * pairs if None in named else 0 < same == pairs
    note = f"both are {source}" if is_one else ""
    if is_same:
        note = f"{same:,} of {pairs:,} lines are the same on both sides"
    if note and None in named:
        note += ": if that is meant, name them by --languages"
    yield finding("one language twice", int(is_one or is_same), 1, note=note)
    sides = zip(("source", "target"), (usual.source, usual.target), named, strict=True)
    judged = [_named(place, side, code) for place, side, code in sides if code is not None]
    if judged:
        wrong = sum(not may_be for may_be, _ in judged)
        notes = filter(None, (note for _, note in judged))
        yield finding("declared language", wrong, len(judged), note="; ".join(notes))


def is_one_language(named: Languages) -> bool:
    """Whether both sides are meant to be in one language."""
    return None not in named and language_code(named[0]) == language_code(named[1])


def _named(place: str, side: Side, code: str) -> tuple[bool, str]:
    """Whether a side may be in the language that is named, and what to say of it."""
    language = told_as(code)
    if not can_be_told(code):
        return True, f"{place}: {code} is none of the languages that can be told apart"
    if side.language is None:
        return True, f"{place}: too few long lines to tell"
    meant = ONE_BY_SPEECH if language in ONE_BY_SPEECH else {language}
    votes = sum(side.languages[code] for code in meant)
    if side.language in meant or votes >= NEAR_KIN * side.languages.total():
        return True, ""
    return False, f"{place} is {side.language}, not {code}"
