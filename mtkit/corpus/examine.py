"""A corpus examined: what its sides are like, what is wrong in it, and which rules are worth it.

It is read twice: once for what is usual in it, once for its faults; and up to some lines a third
time, for their text. Memory holds 38 bytes for each pair, and for a moment three times that.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from mtkit.config.batching import DropRule
from mtkit.config.corpora import Corpus
from mtkit.corpus.characters import UNSPACED, census, classes_of
from mtkit.corpus.examination import WORTH_SHARE, Examination, SideReport
from mtkit.corpus.findings import (
    ENOUGH,
    EXAMPLES,
    MEANINGS,
    TOO_MANY,
    WORTH_DROPPING,
    Finding,
    Languages,
    finding,
    is_one_language,
    of_files,
    of_languages,
    of_size,
)
from mtkit.corpus.languages import can_be_told
from mtkit.corpus.misalignment import Traces, passages
from mtkit.corpus.read import Pair, UnequalSidesError, chunks, read_pairs
from mtkit.corpus.rules import ALL_RULES, Judge
from mtkit.corpus.statistics import Side, Usual, hash_of, usual_of
from mtkit.errors import UserError
from mtkit.report import progress

ASKED_PAIRS = 20_000
"""Pairs whose languages are asked: of more, a share that their hashes choose."""
LONG_WORDS, LONG_UNSPACED, LONG_CHARACTERS = 150, 250, 1000
"""Words, letters of a script without spaces, or characters that are a long line."""
WORTH: dict[DropRule, float] = dict.fromkeys(WORTH_DROPPING, WORTH_SHARE) | {"language": TOO_MANY}
"""The share up to which a rule is worth it: other languages teach nothing of these two."""
_NO_TEXT = re.compile("[\ufffd\0]")
_UNTIDY = re.compile(r"^\s|\s$|\s\s|\t")
Hashes = NDArray[np.int64]


def examine(
    corpora: Corpus | list[Corpus],
    kept_apart: AbstractSet[str] = frozenset(),
    languages: Languages = (None, None),
    enough: tuple[int, int] = ENOUGH,
) -> Examination:
    """Looks at all pairs of the corpora.

    `kept_apart`: normalised sources that are not to be among them (`judge.held_out`); `languages`:
    codes that the sides are said to be in; `enough`: pairs, below which it fails, or warns.
    Raises UserError where nothing can be read, but not for files of unequal length.
    """
    pairs = _Pairs(corpora)
    usual = usual_of(pairs).named(languages)
    if not pairs.count and pairs.unequal:
        raise UserError(pairs.unequal)
    seen = _look(pairs, usual, kept_apart, is_one=is_one_language(languages))
    places = _repeats(seen)
    moved = passages(*seen.traces)
    places["drift"] = [passage.first for passage in moved if passage.shift != 0]
    shown = {name: rows[:EXAMPLES] for name, rows in places.items()}
    there = pairs.at({row for rows in shown.values() for row in rows})
    seen.examples |= {name: [there[row] for row in rows] for name, rows in shown.items()}
    reports = _report(seen, 0, usual), _report(seen, 1, usual)
    length = max(side.median_characters for side in reports)
    findings = [
        *of_files(pairs.unequal, moved, seen.examples["drift"], length),
        *of_size(pairs.count - seen.counts["repeated pairs"], enough),
        *of_languages(usual, languages, seen.counts["same"], pairs.count - seen.counts["blank"]),
        *_of_pairs(seen),
    ]
    return Examination(
        pairs.count, *reports, findings, _worth(seen, languages), seen.counts["repeated pairs"] > 0
    )


def _worth(seen: _Seen, named: Languages) -> list[DropRule]:
    """Without `language` where a side is named one that cannot be told: the rule, once it is
    switched on, knows no names, and would take the side for one of its kin.
    """
    is_told = all(code is None or can_be_told(code) for code in named)
    found = [rule for rule in WORTH if is_told or rule != "language"]
    return [rule for rule in found if 0 < seen.counts[rule] <= WORTH[rule] * seen.judged[rule]]


class _Pairs:
    """The pairs of corpora, as often as they are asked for; files may be of unequal length."""

    def __init__(self, corpora: Corpus | list[Corpus]) -> None:
        self._corpora = corpora
        self.count = 0
        self.unequal = ""
        """What is said of files of unequal length, if they are."""

    def __iter__(self) -> Iterator[Pair]:
        self.count = 0
        try:
            for pair in read_pairs(self._corpora):
                self.count += 1
                yield pair
        except UnequalSidesError as error:
            self.unequal = error.found

    def at(self, rows: AbstractSet[int]) -> dict[int, Pair]:
        """The pairs in these rows."""
        reached = islice(read_pairs(self._corpora), max(rows, default=-1) + 1)
        return {row: pair for row, pair in enumerate(reached) if row in rows}


@dataclass
class _Seen:
    """What was counted while the pairs went by."""

    counts: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Pair]] = field(default_factory=dict)
    traces: tuple[Traces, Traces] = field(default_factory=lambda: (Traces(), Traces()))
    hashes: tuple[list[Hashes], list[Hashes]] = field(default_factory=lambda: ([], []))
    words: list[int] = field(default_factory=lambda: [0, 0])

    def found(self, name: str, pairs: Sequence[Pair], faults: NDArray[np.bool_]) -> None:
        """Counts the pairs that have a fault, and keeps the first of them."""
        self.judged[name] += len(pairs)
        self.counts[name] += int(faults.sum())
        kept = self.examples.setdefault(name, [])
        kept += [pairs[row] for row in np.flatnonzero(faults)[: EXAMPLES - len(kept)]]


def _look(pairs: _Pairs, usual: Usual, kept_apart: AbstractSet[str], *, is_one: bool) -> _Seen:
    """`is_one`: whether both sides are meant to be in one language, where equal ones are right."""
    seen, total = _Seen(), pairs.count
    unasked = {"language", *(["copied"] if is_one else []), *([] if kept_apart else ["overlap"])}
    rules = [rule for rule in ALL_RULES if rule not in unasked]
    judge = Judge(rules, usual, kept_apart)
    linguist = Judge(["language"], usual)
    with progress("checking", total, "pairs") as shown:
        for chunk in chunks(pairs):
            there = [pair for pair in chunk if not pair.blank]
            asked = [pair for pair in there if hash_of(pair) % total < ASKED_PAIRS]
            for part, by in ((there, judge), (asked, linguist)):
                for rule, faults in by.judge(part).items():
                    seen.found(rule, part, faults)
            _note(seen, chunk, usual)
            shown.advance(len(chunk))
    return seen


def _note(seen: _Seen, pairs: list[Pair], usual: Usual) -> None:
    """Notes what is no rule: what is blank, long, mended, and what tells of repetition."""
    blank = np.array([pair.blank for pair in pairs], np.bool_)
    seen.found("blank", pairs, blank)
    seen.found("no text", pairs, _either(pairs, _NO_TEXT.search))
    seen.found("quoted cells", pairs, _either(pairs, _is_quoted))
    seen.found("spaces", pairs, _either(pairs, _UNTIDY.search))
    seen.found("unicode forms", pairs, _either(pairs, _is_changed))
    seen.counts["same"] += sum(not pair.blank and pair.source == pair.target for pair in pairs)
    long = np.zeros(len(pairs), np.bool_)
    for place, side in enumerate((usual.source, usual.target)):
        lines = [(pair.source, pair.target)[place] for pair in pairs]
        seen.traces[place].add(lines)
        hashes = np.fromiter(map(hash, lines), np.int64, len(lines))
        seen.hashes[place].append(np.where(blank, 0, hashes))
        words, bound = _words(lines, side)
        seen.words[place] += int(words.sum())
        long |= (words > bound) | (seen.traces[place].newest() > LONG_CHARACTERS)
    seen.found("long", pairs, long)


def _either(pairs: list[Pair], accuses: Callable[[str], object]) -> NDArray[np.bool_]:
    return np.array([bool(accuses(it.source) or accuses(it.target)) for it in pairs], np.bool_)


def _is_quoted(text: str) -> bool:
    return text[:1] == text[-1:] == '"' and '""' in text[1:-1]


def _is_changed(text: str) -> bool:
    """Whether NFKC changes it."""
    return not (text.isascii() or unicodedata.is_normalized("NFKC", text))


def _words(lines: list[str], side: Side) -> tuple[NDArray[np.int64], int]:
    """(k,) words of each line, or letters where words do not stand apart; how many are long."""
    if side.spaced:
        return np.array([len(line.split()) for line in lines]), LONG_WORDS
    return census(lines)[:, classes_of(UNSPACED)].sum(axis=1), LONG_UNSPACED


def _repeats(seen: _Seen) -> dict[str, list[int]]:
    """Rows of pairs, sources and targets that were there before; counts them, too."""
    source, target = (np.concatenate(side) for side in seen.hashes)
    there = np.flatnonzero((source != 0) & (target != 0))
    both = source[there] * np.int64(1_000_003) ^ target[there]
    new, places = _first(both), {}
    places["repeated pairs"] = there[~new]
    for name, side in (("repeated sources", source), ("repeated targets", target)):
        rows = there[new]
        places[name] = rows[~_first(side[rows])]
    for name, rows in places.items():
        seen.counts[name], seen.judged[name] = len(rows), len(source)
    return {name: rows.tolist() for name, rows in places.items()}


def _first(hashes: Hashes) -> NDArray[np.bool_]:
    """(n,) whether a value is there for the first time."""
    first = np.zeros(len(hashes), np.bool_)
    first[np.unique(hashes, return_index=True)[1]] = True
    return first


def _of_pairs(seen: _Seen) -> Iterator[Finding]:
    for name in MEANINGS:
        if name in seen.judged:
            count, judged = seen.counts[name], seen.judged[name]
            yield finding(name, count, judged, seen.examples.get(name, ()))


def _report(seen: _Seen, place: int, usual: Usual) -> SideReport:
    side = (usual.source, usual.target)[place]
    lengths, hashes = seen.traces[place].lengths(), np.concatenate(seen.hashes[place])
    asked = side.languages.total()
    return SideReport(
        int(lengths.sum(dtype=np.int64)),
        seen.words[place],
        float(np.median(lengths)),
        len(np.unique(hashes[hashes != 0])),
        sorted(side.scripts),
        side.language,
        side.languages[side.language] / asked if side.language else 0.0,
        usual.languages[place] is not None,
    )
