"""Encode pairs to subword ids, chunk by chunk, and drop pairs that training should not see."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.store import Lengths, Tokens, token_dtype
from mtkit.config.target_tags import piece_of_tag
from mtkit.corpus.read import Pair, hash_of
from mtkit.corpus.rules import PairFilter
from mtkit.machine import count_cores
from mtkit.tokenizer.codec import Tokenizer

_NO_TEXT = Pair(source="", target="", corpus=0, file="", line=0)


class Encoded(NamedTuple):
    """A chunk of the corpus: k kept pairs with their ids, and the dropped pairs."""

    positions: NDArray[np.int64]
    """(k,): the position of each kept pair in the chunk, from 0."""
    corpora: NDArray[np.uint16]
    """(k,): the index of each kept pair's corpus."""
    lengths: Lengths
    """(k, 2): source and target lengths in subwords."""
    tokens: Tokens
    """Concatenated ids; for each pair first the source, then the target."""
    dropped: list[tuple[Pair, str]]
    """The dropped pairs in order, each with the reason: blank, a rule, or too long."""

    @property
    def pairs(self) -> int:
        """The number of kept and dropped pairs."""
        return len(self.positions) + len(self.dropped)


def encode_chunk(
    chunk: list[Pair],
    tokenizer: Tokenizer,
    max_length: int,
    pair_filter: PairFilter | None = None,
    source_tag: str | None = None,
) -> Encoded:
    """Encode the pairs of a chunk, and drop faulty ones.

    `max_length`: subwords of the longest side that is kept. `pair_filter`: the rules of
    `batching.drop`; None: no rules. `source_tag`: as in the settings of decoding.
    """
    faults = [_find_fault(pair, pair_filter) for pair in chunk]
    # All lines of a chunk at once, which SentencePiece divides among its threads. Faulty pairs are
    # replaced by blank ones, so that all lists are equally long.
    sound = [pair if fault is None else _NO_TEXT for pair, fault in zip(chunk, faults, strict=True)]
    threads = count_cores()
    sources = tokenizer.encode_source([pair.tagged for pair in sound], threads)
    targets = tokenizer.encode_target([pair.target for pair in sound], threads)
    positions: list[int] = []
    dropped: list[tuple[Pair, str]] = []
    lengths: list[tuple[int, int]] = []
    ids: list[int] = []
    for position, pair in enumerate(chunk):
        source, target = sources[position], targets[position]
        if source and target and pair.target_tag is not None:
            before_source, before_target = tokenizer.language_symbols(pair.target_tag, source_tag)
            source = [*before_source, *source]
            target = [*before_target, *target]
        fault = faults[position]
        if fault is not None:
            dropped.append((pair, fault))
        elif not (source and target):  # text that the tokenizer removes
            dropped.append((pair, "blank"))
        elif max(len(source), len(target)) > max_length:
            dropped.append((pair, "too long"))
        else:
            positions.append(position)
            lengths.append((len(source), len(target)))
            ids += source
            ids += target
    return Encoded(
        positions=np.array(positions, np.int64),
        corpora=np.array([chunk[position].corpus for position in positions], np.uint16),
        lengths=np.array(lengths, np.uint16).reshape(-1, 2),  # (0, 2) if no pair is kept
        tokens=np.array(ids, token_dtype(tokenizer.vocab)),
        dropped=dropped,
    )


def _find_fault(pair: Pair, pair_filter: PairFilter | None) -> str | None:
    """Return why a pair is dropped before it is encoded; None if it is kept."""
    if pair.blank:
        return "blank"
    return pair_filter.broken_rule(pair) if pair_filter else None


def key_of_pair(pair: Pair) -> int:
    """Return a hash of the pair and its target tag, with which even equal pairs may differ.

    A name, for example, may be the same in several target languages.
    """
    if pair.target_tag is None:
        return hash_of(pair)
    return hash_of(pair._replace(source=f"{piece_of_tag(pair.target_tag)} {pair.source}"))
