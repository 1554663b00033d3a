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
"""With at least so many bits for each pair, at most 12% of the unseen pairs are taken for seen."""
MIN_BYTES, MAX_BYTES = 1 << 10, 1 << 20
"""Smallest and largest filter; in that of a large corpus most bits are set."""
MIN_EMPTY_SHARE = 0.01
"""With fewer empty bits, the share of unseen pairs is not fully corrected, so it is too small."""
FACTOR = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio; multiplication by it spreads neighbouring numbers."""
MASK_64 = (1 << 64) - 1
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

        # The number of pairs is not known yet, so first fill a filter of the largest size.
        is_set = np.zeros(8 * MAX_BYTES, bool)
        shift = np.uint64(_shift_of(MAX_BYTES))
        for ids, lengths in blocks:
            is_set[_hash_all(ids, lengths) >> shift] = True
        # Linear counting (Whang et al. 1990): n = -m·ln(share of empty bits), for m bits.
        empty_share = max(1 - is_set.mean(), MIN_EMPTY_SHARE)
        pairs = -len(is_set) * np.log(empty_share)
        useful_bytes = min(pairs * BITS_PER_BIGRAM / 8, MAX_BYTES)
        size = MIN_BYTES
        while size < useful_bytes:
            size *= 2
        # The place of a pair is given by the first bits of its hash. A smaller filter takes fewer
        # of them, so neighbouring places become one, which is set if any of them was.
        smaller = is_set.reshape(8 * size, -1).any(axis=1)
        return cls(np.packbits(smaller, bitorder="little").tobytes())

    def unseen_share(self, sentences: Iterable[Sequence[int]]) -> float:
        """Return the share of pairs in some sentences that training lacks; 0 without sentences.

        `sentences`: ids without BOS and EOS.
        """
        bits = self.bits
        shift = self._shift
        pairs = 0
        seen = 0
        for ids in sentences:
            pairs += len(ids) + 1  # with BOS and EOS
            for first, second in pairwise(chain((BOS,), ids, (EOS,))):
                # The hash of `_hash_all`, without numpy.
                pair = (first << MAX_ID_BITS) | second
                pair_hash = (pair * FACTOR) & MASK_64
                place = pair_hash >> shift
                byte = bits[place // 8]
                bit = (byte >> (place % 8)) & 1  # the first bit of a byte is the lowest
                seen += bit
        unseen_share = (pairs - seen) / max(pairs, 1)
        # Only an unseen pair whose bit is empty is recognised, so the share is that much too small.
        return min(1.0, unseen_share / max(self._empty_share, MIN_EMPTY_SHARE))


def _shift_of(size: int) -> int:
    """Return how far the hash of a pair is shifted to get its place in so many bytes."""
    log2_places = (8 * size).bit_length() - 1  # the size is a power of two
    return 64 - log2_places


def _hash_all(ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hashes of all pairs in some sentences, whose ids are joined."""
    import numpy as np

    # A sentence is x_1 … x_n EOS, and the BOS of the next one follows it.
    ends = lengths.cumsum()
    bounds = np.tile([EOS, BOS], len(ends))
    symbols = np.insert(ids, np.repeat(ends, 2), bounds).astype(np.uint64)
    first = np.concatenate([[np.uint64(BOS)], symbols[:-1]])
    is_second = symbols != BOS  # EOS and BOS are no pair
    first = first[is_second]
    second = symbols[is_second]
    pairs: NDArray[np.uint64] = (first << np.uint64(MAX_ID_BITS)) | second
    return pairs * np.uint64(FACTOR)  # the product is taken modulo 2^64
