"""Which pairs the rules of `batching.drop` accuse, for `mtkit batch` and `mtkit check`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from mtkit.config.batching import DropRule
from mtkit.config.corpora import Corpus
from mtkit.corpus import texts
from mtkit.corpus.characters import DIGIT, SPACE, Counts, census, classes_of, letters
from mtkit.corpus.languages import foreign
from mtkit.corpus.numbers import numbers_differ
from mtkit.corpus.read import Pair, read_pairs
from mtkit.corpus.statistics import Usual

Faults = NDArray[np.bool_]
"""(k,): which of k pairs a rule accuses."""

ALL_RULES: tuple[DropRule, ...] = get_args(DropRule)
DEVIATIONS = 4.5
"""Standard deviations of the log of the length ratio from the usual one that are too many."""
LEAST_LETTERS, MOST_DIGITS = 0.4, 0.5
"""Of the characters of a side but for spaces: letters or digits at least, digits at most."""
LEAST_AT_HOME = 0.1
"""Of a side's letters, in scripts that are at home there."""
TELLING_CHARACTERS = 5
"""Fewer on a side say nothing by their kinds."""


@dataclass(frozen=True)
class _Chunk:
    """k pairs, their characters counted, and what is usual in their corpus."""

    sources: Sequence[str]
    targets: Sequence[str]
    counts: tuple[Counts, Counts]
    usual: Usual
    held_out: AbstractSet[str]

    def where(self, accuses: Callable[[str, str], bool], among: Faults | None = None) -> Faults:
        """Which pairs the function accuses, asked for those `among` them alone."""
        found = np.zeros(len(self.sources), np.bool_)
        rows = range(len(found)) if among is None else np.flatnonzero(among).tolist()
        for row in rows:
            found[row] = accuses(self.sources[row], self.targets[row])
        return found


def _uneven(chunk: _Chunk) -> Faults:
    lengths = np.array([list(map(len, side)) for side in (chunk.sources, chunk.targets)], float)
    return np.asarray(chunk.usual.unevenness(lengths.T) > DEVIATIONS)


def _letters(chunk: _Chunk) -> Faults:
    return _either(
        chunk, lambda counts: letters(counts) + counts[:, DIGIT] < LEAST_LETTERS * _visible(counts)
    )


def _digits(chunk: _Chunk) -> Faults:
    return _either(chunk, lambda counts: counts[:, DIGIT] > MOST_DIGITS * _visible(counts))


def _either(chunk: _Chunk, accuses: Callable[[Counts], Faults]) -> Faults:
    """Which pairs the counts of either side accuse, where they are enough to say anything."""
    source, target = (
        accuses(counts) & (_visible(counts) >= TELLING_CHARACTERS) for counts in chunk.counts
    )
    return source | target


def _visible(counts: Counts) -> NDArray[np.int64]:
    return np.asarray(counts.sum(axis=1) - counts[:, SPACE])


def _script(chunk: _Chunk) -> Faults:
    found = np.zeros(len(chunk.sources), np.bool_)
    for counts, side in zip(chunk.counts, (chunk.usual.source, chunk.usual.target), strict=True):
        of_all = letters(counts)
        at_home = counts[:, classes_of(side.scripts)].sum(axis=1)
        found |= (of_all >= TELLING_CHARACTERS) & (at_home < LEAST_AT_HOME * of_all)
    return found


def _language(chunk: _Chunk) -> Faults:
    # A language that is not known has the votes of several: its lines are foreign to each.
    source, target = chunk.usual.languages
    return chunk.where(
        lambda ours, theirs: (
            (source is not None and foreign(ours, source))
            or (target is not None and foreign(theirs, target))
        )
    )


def _copied(chunk: _Chunk) -> Faults:
    source, target = map(letters, chunk.counts)
    return chunk.where(texts.copied, source == target)


def _ending(chunk: _Chunk) -> Faults:
    usual = chunk.usual.endings
    return chunk.where(lambda s, t: (texts.ending(s), texts.ending(t)) not in usual)


def _overlap(chunk: _Chunk) -> Faults:
    return chunk.where(lambda source, _: texts.normalised(source) in chunk.held_out)


_RULES: Mapping[DropRule, Callable[[_Chunk], Faults]] = {
    "uneven": _uneven,
    "glued": lambda chunk: chunk.where(texts.glued),
    "letters": _letters,
    "digits": _digits,
    "numbers": lambda chunk: chunk.where(numbers_differ),
    "links": lambda chunk: chunk.where(texts.links_differ),
    "markup": lambda chunk: chunk.where(texts.markup),
    "mojibake": lambda chunk: chunk.where(texts.mojibake),
    "script": _script,
    "language": _language,
    "repetition": lambda chunk: chunk.where(texts.repetition),
    "copied": _copied,
    "brackets": lambda chunk: chunk.where(texts.brackets_differ),
    "ending": _ending,
    "overlap": _overlap,
}


def held_out(corpora: Iterable[Corpus]) -> set[str]:
    """Normalised sources of the corpora that are kept for validation and test."""
    return {texts.normalised(pair.source) for one in corpora for pair in read_pairs(one)}


class Judge:
    """Judges pairs by some rules, against what is usual in their corpus."""

    def __init__(
        self, rules: Iterable[DropRule], usual: Usual, held_out: AbstractSet[str] = frozenset()
    ) -> None:
        """`held_out`: normalised sources that the rule `overlap` accuses."""
        chosen = set(rules)
        self.rules = [rule for rule in ALL_RULES if rule in chosen]
        self._usual = usual
        self._held_out = held_out

    def judge(self, pairs: Sequence[Pair]) -> dict[DropRule, Faults]:
        """For each rule, in the order of `ALL_RULES`, which of the k pairs it accuses."""
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        counts = census(sources), census(targets)
        chunk = _Chunk(sources, targets, counts, self._usual, self._held_out)
        return {rule: _RULES[rule](chunk) for rule in self.rules}
