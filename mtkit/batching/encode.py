"""Pairs to subword ids, chunk by chunk, but for those that a rule drops, and the record of these.

Rules apply in the order of `RULES`; the first that fits names the reason. The result does not
depend on the number of threads, which suffice, as SentencePiece lets others run while it encodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.store import Lengths, Tokens, token_dtype
from mtkit.config.batching import BatchingSettings
from mtkit.corpus.read import Pair, chunks
from mtkit.corpus.rules import ALL_RULES, Judge
from mtkit.machine import processors
from mtkit.tokenizer.codec import Tokenizer

EXAMPLES_KEPT = 5
SHOWN_CHARACTERS = 80
"""Number of characters that are shown of each side of an example."""


Shown = dict[str, str]
"""An example's `where`, `source` and `target`."""


RULES = ("kept", "blank", "duplicate", *ALL_RULES, "too long", "ratio")
"""What can become of a pair."""
KEPT, BLANK, DUPLICATE = range(3)
TOO_LONG, RATIO = map(RULES.index, ("too long", "ratio"))

Rules = NDArray[np.uint8]
"""For each pair of a chunk, its place in RULES."""


class Encoded(NamedTuple):
    """A chunk of k pairs of which some are kept."""

    pairs: list[Pair]
    rules: Rules
    """(k,): the rule that each pair fell to."""
    lengths: Lengths
    """(kept, 2): lengths of source and target in subwords."""
    tokens: Tokens
    """Ids of the kept pairs, source then target, end to end."""


def encode_pairs(
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    settings: BatchingSettings,
    judge: Judge | None = None,
) -> Iterator[Encoded]:
    """Chunks of pairs with what became of them, in order; few are in memory at a time.

    `judge`: of the rules of `batching.drop`, where there are any.
    """
    # A pair that was met is known by a 128-bit hash: about 100 bytes of memory each.
    met: set[bytes] | None = set() if settings.deduplicate else None
    workers = settings.workers or len(processors())
    flight: deque[Future[Encoded]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for chunk in chunks(pairs):
            by_text = np.array([_text_rule(pair, met) for pair in chunk], np.uint8)
            if judge is not None:
                _apply(judge, chunk, by_text)
            flight.append(pool.submit(_encode, chunk, by_text, tokenizer, settings))
            if len(flight) > 2 * workers:
                yield flight.popleft().result()
        while flight:
            yield flight.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _encode(
    pairs: list[Pair], by_text: Rules, tokenizer: Tokenizer, settings: BatchingSettings
) -> Encoded:
    """`by_text` (k,): what is dropped already, and hence not encoded."""
    left = list(compress(pairs, by_text == KEPT))
    sources = tokenizer.encode_source([pair.tagged for pair in left])
    targets = tokenizer.encode_target([pair.target for pair in left])
    lengths = np.array([list(map(len, sources)), list(map(len, targets))], np.int64).T
    by_length = length_rules(lengths, settings)
    rules = by_text.copy()
    rules[by_text == KEPT] = by_length
    kept = by_length == KEPT
    sides = compress(zip(sources, targets, strict=True), kept)
    ids = chain.from_iterable(chain.from_iterable(sides))
    dtype = token_dtype(max(tokenizer.source_vocab, tokenizer.target_vocab))
    tokens = np.fromiter(ids, dtype, int(lengths[kept].sum()))
    return Encoded(pairs, rules, lengths[kept].astype(np.uint16), tokens)


def length_rules(lengths: NDArray[np.int64], settings: BatchingSettings) -> Rules:
    """What the (k, 2) lengths in subwords say; a side of which nothing is left is blank, too."""
    longer, shorter = lengths.max(axis=1), lengths.min(axis=1)
    rules = np.zeros(len(lengths), np.uint8)
    if settings.max_ratio is not None:
        rules[longer > settings.max_ratio * shorter] = RATIO
    rules[longer > settings.max_length] = TOO_LONG
    rules[shorter == 0] = BLANK
    return rules


def _text_rule(pair: Pair, met: set[bytes] | None) -> int:
    """What the text itself says; `met`: hashes of the pairs before, where none may come again."""
    if pair.blank:
        return BLANK
    if met is None:
        return KEPT
    known = blake2b(f"{pair.source}\n{pair.target}".encode(), digest_size=16).digest()
    if known in met:
        return DUPLICATE
    met.add(known)
    return KEPT


def _apply(judge: Judge, pairs: list[Pair], rules: Rules) -> None:
    """Writes into `rules` which of those pairs that are kept so far fall to the judge's rules."""
    left = np.flatnonzero(rules == KEPT)
    for name, faults in judge.judge([pairs[row] for row in left]).items():
        accused = left[faults]
        rules[accused[rules[accused] == KEPT]] = RULES.index(name)


class Drops:
    """How many pairs each rule dropped, and the first of them: where they are, how they begin."""

    def __init__(self) -> None:
        self._by_rule: dict[int, dict[str, Any]] = {}

    def add(self, pairs: list[Pair], rules: Rules) -> None:
        for index in np.flatnonzero(rules):
            found = self._by_rule.setdefault(int(rules[index]), {"count": 0, "examples": []})
            found["count"] += 1
            if found["count"] <= EXAMPLES_KEPT:
                found["examples"].append(shown(pairs[index]))

    def record(self) -> dict[str, dict[str, Any]]:
        """For each rule that dropped any, its `count` and `examples`."""
        return {RULES[rule]: self._by_rule[rule] for rule in sorted(self._by_rule)}

    def summary(self) -> str:
        """For instance: 3 blank, 14 too long."""
        return ", ".join(f"{found['count']:,} {rule}" for rule, found in self.record().items())

    def lines(self) -> Iterator[str]:
        """What people should see of it: nothing where nothing was dropped."""
        for rule, found in self.record().items():
            yield f"  dropped {found['count']:,} {rule}, for instance"
            for shown in found["examples"][:2]:
                yield f"    {shown['where']}  {shown['source']!r} | {shown['target']!r}"


def shown(pair: Pair) -> Shown:
    """An example: where it is, and how its sides begin."""
    return {
        "where": pair.where,
        "source": _beginning(pair.source),
        "target": _beginning(pair.target),
    }


def _beginning(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
