"""Encode pairs to subword ids, chunk by chunk, and drop pairs that training should not see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from mtkit.batching.hints import HintWriter
from mtkit.batching.store import Lengths, Tokens, token_dtype
from mtkit.config.settings import BatchingSettings
from mtkit.config.target_tags import piece_of_tag
from mtkit.corpus.read import Pair, chunks
from mtkit.corpus.rules import PairFilter
from mtkit.corpus.statistics import hash_of
from mtkit.machine import count_cores
from mtkit.prefetch import prefetch
from mtkit.tokenizer.codec import Tokenizer


class Encoded(NamedTuple):
    """A chunk of the corpus: k kept pairs with their ids, and the dropped pairs."""

    kept: list[Pair]
    lengths: Lengths
    """(k, 2): source and target lengths in subwords."""
    tokens: Tokens
    """Concatenated ids; for each pair first the source, then the target."""
    dropped: list[tuple[Pair, str]]
    """The dropped pairs, each with the reason: blank, duplicate, a rule, or too long."""
    hinted: int = 0
    """How many of the kept pairs, the last ones, are second forms of other pairs, with hints."""


def encode_pairs(
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    settings: BatchingSettings,
    pair_filter: PairFilter | None = None,
    hint_writer: HintWriter | None = None,
) -> Iterator[Encoded]:
    """Yield chunks of encoded pairs in order; only a few chunks are in memory.

    `pair_filter`: the rules of `batching.drop`; None: no rules. `hint_writer`: adds a second form
    of some pairs, with hints; None: none.
    """
    # Pairs are deduplicated by 64-bit hashes, which take about 70 bytes of memory per pair.
    seen: set[int] | None = set() if settings.deduplicate else None
    dtype = token_dtype(max(tokenizer.source_vocab, tokenizer.target_vocab))
    threads = count_cores()
    for number, chunk in enumerate(prefetch(chunks(pairs))):
        sound: list[Pair] = []
        dropped: list[tuple[Pair, str]] = []
        for pair in chunk:
            fault = _find_fault(pair, seen, pair_filter)
            if fault is None:
                sound.append(pair)
            else:
                dropped.append((pair, fault))
        first_hinted = len(sound)
        if hint_writer is not None:
            sound += hint_writer.write(sound, number)
        # All lines of a chunk at once, which SentencePiece divides among its threads.
        sources = tokenizer.encode_source([pair.tagged for pair in sound], threads)
        targets = tokenizer.encode_target([pair.target for pair in sound], threads)
        kept: list[Pair] = []
        lengths: list[tuple[int, int]] = []
        ids: list[int] = []
        hinted = 0
        for place, (pair, source, target) in enumerate(zip(sound, sources, targets, strict=True)):
            is_hinted = place >= first_hinted
            if source and pair.target_tag is not None:
                source = [tokenizer.tags[pair.target_tag], *source]
            reason = None
            if not (source and target):  # text that the tokenizer removes
                reason = "blank"
            elif max(len(source), len(target)) > settings.max_length:
                reason = "too long"
            if reason is None:
                kept.append(pair)
                hinted += is_hinted
                lengths.append((len(source), len(target)))
                ids += source
                ids += target
            elif not is_hinted:  # the pair itself is kept
                dropped.append((pair, reason))
        yield Encoded(
            kept=kept,
            lengths=np.array(lengths, np.uint16).reshape(-1, 2),  # (0, 2) if no pair is kept
            tokens=np.array(ids, dtype),
            dropped=dropped,
            hinted=hinted,
        )


def _find_fault(pair: Pair, seen: set[int] | None, pair_filter: PairFilter | None) -> str | None:
    """Return why a pair is dropped before it is encoded; None if it is kept.

    `seen`: hashes of earlier pairs, to which the hash of this pair is added; None: duplicates are
    kept.
    """
    if pair.blank:
        return "blank"
    if seen is not None:
        key = _key_of(pair)
        if key in seen:
            return "duplicate"
        seen.add(key)
    return pair_filter.broken_rule(pair) if pair_filter else None


def _key_of(pair: Pair) -> int:
    """Return a hash of the pair with its target tag: names are the same in several languages."""
    if pair.target_tag is None:
        return hash_of(pair)
    return hash_of(pair._replace(source=f"{piece_of_tag(pair.target_tag)} {pair.source}"))
