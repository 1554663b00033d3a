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
    is_hinted: bool = False
    """Whether these are second forms of the pairs of the chunk before, with hints."""


def encode_pairs(
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    settings: BatchingSettings,
    pair_filter: PairFilter | None = None,
    hint_writer: HintWriter | None = None,
) -> Iterator[Encoded]:
    """Yield chunks of encoded pairs in order; only a few chunks are in memory.

    `pair_filter`: the rules of `batching.drop`; None: no rules. `hint_writer`: writes second forms
    of some pairs, with hints, which follow the chunk; None: there are none.
    """
    # Pairs are deduplicated by 64-bit hashes, which take about 70 bytes of memory per pair.
    seen: set[int] | None = set() if settings.deduplicate else None
    for number, chunk in enumerate(prefetch(chunks(pairs))):
        sound: list[Pair] = []
        dropped: list[tuple[Pair, str]] = []
        for pair in chunk:
            fault = _find_fault(pair, seen, pair_filter)
            if fault is None:
                sound.append(pair)
            else:
                dropped.append((pair, fault))
        encoded = _encode(sound, tokenizer, settings.max_length)
        yield encoded._replace(dropped=dropped + encoded.dropped)
        if hint_writer is not None:
            hinted = hint_writer.write(encoded.kept, number)
            # What is too long with hints is not missed: the pair itself is kept.
            yield _encode(hinted, tokenizer, settings.max_length)._replace(
                dropped=[], is_hinted=True
            )


def _encode(pairs: list[Pair], tokenizer: Tokenizer, max_length: int) -> Encoded:
    """Encode the pairs of a chunk; drop those without text, or with too much."""
    # All lines of a chunk at once, which SentencePiece divides among its threads.
    threads = count_cores()
    sources = tokenizer.encode_source([pair.tagged for pair in pairs], threads)
    targets = tokenizer.encode_target([pair.target for pair in pairs], threads)
    kept: list[Pair] = []
    dropped: list[tuple[Pair, str]] = []
    lengths: list[tuple[int, int]] = []
    ids: list[int] = []
    for pair, source, target in zip(pairs, sources, targets, strict=True):
        if source and pair.target_tag is not None:
            source = [tokenizer.tags[pair.target_tag], *source]
        if not (source and target):  # text that the tokenizer removes
            dropped.append((pair, "blank"))
        elif max(len(source), len(target)) > max_length:
            dropped.append((pair, "too long"))
        else:
            kept.append(pair)
            lengths.append((len(source), len(target)))
            ids += source
            ids += target
    return Encoded(
        kept=kept,
        lengths=np.array(lengths, np.uint16).reshape(-1, 2),  # (0, 2) if no pair is kept
        tokens=np.array(ids, token_dtype(max(tokenizer.source_vocab, tokenizer.target_vocab))),
        dropped=dropped,
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
