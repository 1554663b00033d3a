"""Encode rows of corpora to subword ids, and drop pairs that training should not see.

The result depends on the rows and on the settings only. So it is the same, whoever encodes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.store import Lengths, Tokens, token_dtype
from mtkit.config.settings import DROP_RULES, Config, SetName
from mtkit.corpus.read import Pair, hash_of, hash_texts
from mtkit.corpus.rules import PairFilter, held_out_keys
from mtkit.corpus.statistics import statistics_by_corpus
from mtkit.corpus.store import CorpusRows
from mtkit.machine import count_cores
from mtkit.tokenizer.codec import Tokenizer

FAULTS = ("", "blank", "too long", "duplicate", *DROP_RULES)
"""Why a pair is dropped; the first stands for a kept pair."""
KEPT, BLANK, TOO_LONG, DUPLICATE = range(4)
"""The indices in FAULTS of all that are no rules."""
_NO_TEXT = Pair(source="", target="", corpus=0, file="", line=0)


class Encoded(NamedTuple):
    """n encoded rows, k of which are kept."""

    faults: NDArray[np.uint8]
    """(n,): the index in FAULTS of each row's fault."""
    corpora: NDArray[np.uint16]
    """(k,): the index of each kept pair's corpus."""
    lengths: Lengths
    """(k, 2): source and target lengths in subwords."""
    tokens: Tokens
    """Concatenated ids; for each pair first the source, then the target."""

    def drop_repeated(self, is_repeated: NDArray[np.bool_]) -> Encoded:
        """Return the rows without repeated ones; `is_repeated`: (n,), True only for kept rows."""
        is_first = ~is_repeated[self.faults == KEPT]
        sizes = self.lengths.sum(axis=1, dtype=np.int64)
        faults = self.faults.copy()
        faults[is_repeated] = DUPLICATE
        return Encoded(
            faults=faults,
            corpora=self.corpora[is_first],
            lengths=self.lengths[is_first],
            tokens=self.tokens[np.repeat(is_first, sizes)],
        )


@dataclass(frozen=True)
class RowEncoder:
    """Encodes rows. When it is pickled, it holds no text: other processes read it themselves."""

    config: Config
    tokenizer: Tokenizer
    rows: CorpusRows
    pair_filter: PairFilter | None = None
    """The rules of `batching.drop`; None without rules."""

    def encode(self, rows: range) -> Encoded:
        """Encode rows chunk by chunk, and drop faulty pairs."""
        chunks = [self._encode_chunk(chunk) for chunk in self.rows.split(rows)]
        return Encoded._make(map(np.concatenate, zip(*chunks, strict=True)))

    def _encode_chunk(self, rows: range) -> Encoded:
        pairs = list(self.rows.read(rows))
        faults = [self._find_fault(pair) for pair in pairs]
        # All lines of a chunk at once, which SentencePiece divides among its threads. Faulty pairs
        # are replaced by blank ones, so that all lists are equally long.
        sound = [_NO_TEXT if fault else pair for pair, fault in zip(pairs, faults, strict=True)]
        threads = count_cores()
        max_length = self.config.batching.max_length
        source_tag = self.config.decoding.source_tag
        sources = self.tokenizer.encode_source([pair.tagged for pair in sound], threads)
        targets = self.tokenizer.encode_target([pair.target for pair in sound], threads)
        corpora: list[int] = []
        lengths: list[tuple[int, int]] = []
        ids: list[int] = []
        for position, pair in enumerate(pairs):
            source, target = sources[position], targets[position]
            if source and target and pair.target_tag is not None:
                symbols = self.tokenizer.language_symbols(pair.target_tag, source_tag)
                before_source, before_target = symbols
                source = [*before_source, *source]
                target = [*before_target, *target]
            if not (source and target):  # a faulty pair, or text that the tokenizer removes
                faults[position] = faults[position] or BLANK
            elif max(len(source), len(target)) > max_length:
                faults[position] = TOO_LONG
            else:
                corpora.append(pair.corpus)
                lengths.append((len(source), len(target)))
                ids += source
                ids += target
        return Encoded(
            faults=np.array(faults, np.uint8),
            corpora=np.array(corpora, np.uint16),
            lengths=np.array(lengths, np.uint16).reshape(-1, 2),  # (0, 2) if no pair is kept
            tokens=np.array(ids, token_dtype(self.tokenizer.vocab)),
        )

    def _find_fault(self, pair: Pair) -> int:
        """Return the index in FAULTS of why a pair is dropped before it is encoded."""
        if pair.blank:
            return BLANK
        if self.pair_filter is None:
            return KEPT
        return FAULTS.index(self.pair_filter.broken_rule(pair) or "")


def make_filter(config: Config, sets: Mapping[SetName, CorpusRows]) -> PairFilter | None:
    """Return the rules of `batching.drop` with the statistics they need; None without rules."""
    rules = config.batching.drop
    if not rules:
        return None
    keys: frozenset[int] = frozenset()
    if "overlap" in rules:
        measuring = [rows for name, rows in sets.items() if name != "train"]
        keys = held_out_keys(chain.from_iterable(measuring))
    # Without the samples, which would be sent to each process.
    usual = statistics_by_corpus(sets["train"])
    statistics = [replace(each, sample=(), held_out=keys) for each in usual]
    return PairFilter(rules, statistics)


def key_of_pair(pair: Pair) -> int:
    """Return a hash of the pair and its target tag."""
    return hash_of(pair) ^ key_of_tag(pair.target_tag)


def key_of_tag(target_tag: str | None) -> int:
    """Return what a target tag changes in the hash of a pair.

    Even equal pairs differ if their target tags do: a name may be the same in several languages.
    """
    tag = (target_tag or "").encode()
    return hash_texts(tag, tag)
