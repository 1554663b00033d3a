"""The pairs of neighbouring subwords that occur in the training data, in a few hundred kilobytes.

A Bloom filter with one hash function: a pair that training has seen is always known, and a few
others share its bit. How many do is known from the share of bits that are set, so shares of unseen
pairs are corrected for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from mtkit.symbols import BOS, EOS

if TYPE_CHECKING:  # few translations need numpy; importing it takes as long as all else
    import numpy as np
    from numpy.typing import NDArray

BITS_PER_BIGRAM = 8
"""With at least so many bits for each pair, at most 12 % of the unseen pairs are taken for seen."""
MIN_BYTES, MAX_BYTES = 1 << 10, 1 << 20
"""Smallest and largest filter; in that of a large corpus most bits are set."""
MIN_EMPTY_SHARE = 0.01
"""If fewer bits are empty, the share of unseen pairs cannot be told any more, and is too small."""
FACTOR = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio; multiplication by it spreads neighbouring numbers."""
WORD = (1 << 64) - 1
MAX_ID_BITS = 24
"""Bits of a subword id; a vocabulary has at most 2^24 subwords."""


class SeenBigrams:
    """A set of pairs of neighbouring subwords, with BOS before and EOS after a sentence."""

    def __init__(self, bits: bytes) -> None:
        """Open the filter; its size in bytes must be a power of two.

        Raises:
            ValueError: the size is not that of a filter.
        """
        is_power_of_two = len(bits) & (len(bits) - 1) == 0
        if not (MIN_BYTES <= len(bits) <= MAX_BYTES and is_power_of_two):
            raise ValueError(f"{len(bits)} bytes are no filter of subword pairs")
        self.bits = bits
        self._shift = _shift_of(len(bits))
        set_bits = int.from_bytes(bits).bit_count()
        self._empty_share = 1 - set_bits / (8 * len(bits))

    @classmethod
    def of(cls, blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> SeenBigrams:
        """Collect the pairs of many sentences: blocks of their joined ids, and their lengths."""
        import numpy as np

        largest = np.zeros(8 * MAX_BYTES, bool)
        shift = np.uint64(_shift_of(MAX_BYTES))
        for ids, lengths in blocks:
            largest[_hash_all(ids, lengths) >> shift] = True
        # Pairs that share a bit are not counted, so the number of pairs is estimated.
        empty_share = max(1 - largest.mean(), MIN_EMPTY_SHARE)
        pairs = -len(largest) * np.log(empty_share)
        size = MIN_BYTES
        while size < min(pairs * BITS_PER_BIGRAM / 8, MAX_BYTES):
            size *= 2
        # The place of a pair is the beginning of its hash, so neighbouring bits fall together.
        bits = largest.reshape(8 * size, -1).any(axis=1)
        return cls(np.packbits(bits, bitorder="little").tobytes())

    def unseen_share(self, sentences: Iterable[Sequence[int]]) -> float:
        """Return which share of the pairs in some sentences training lacks; 0 without sentences.

        `sentences`: ids without BOS and EOS.
        """
        bits = self.bits
        shift = self._shift
        pairs = 0
        seen = 0
        for ids in sentences:
            pairs += len(ids) + 1
            for first, second in pairwise(chain((BOS,), ids, (EOS,))):
                place = ((first << MAX_ID_BITS | second) * FACTOR & WORD) >> shift
                seen += bits[place >> 3] >> (place & 7) & 1
        unseen_share = (pairs - seen) / max(pairs, 1)
        return min(1.0, unseen_share / max(self._empty_share, MIN_EMPTY_SHARE))


def _shift_of(size: int) -> int:
    """Return how far the hash of a pair is shifted to get its place in so many bytes."""
    places = 8 * size
    return 65 - places.bit_length()


def _hash_all(ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hashes of all pairs in some sentences, whose ids are joined."""
    import numpy as np

    ends = lengths.cumsum()
    # One BOS before and one EOS after each sentence; its subwords move by 2 for each one before it.
    sentences = np.arange(len(lengths))
    framed = np.full(len(ids) + 2 * len(lengths), EOS, np.uint64)
    framed[np.arange(len(ids)) + 2 * np.repeat(sentences, lengths) + 1] = ids
    starts = ends - lengths + 2 * sentences
    framed[starts] = BOS
    follows = np.ones(len(framed), bool)
    follows[starts] = False  # the EOS of a sentence and the BOS of the next are no pair
    places = follows.nonzero()[0]
    pairs = framed[places - 1] << np.uint64(MAX_ID_BITS) | framed[places]
    return pairs * np.uint64(FACTOR)
