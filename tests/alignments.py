"""The alignment error rate, and alignments from text."""

from __future__ import annotations

from collections.abc import Sequence

from mtkit.decoding.alignment import Links


def from_pharaoh(line: str) -> Links:
    """Parse links such as `0-0 1-2`; raise ValueError if the text is invalid."""
    pairs = [link.split("-") for link in line.split()]
    return {(int(i), int(j)) for i, j in pairs}


def alignment_error_rate(
    predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> float:
    """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) over all sentences, Och and Ney 2003; 0 is best.

    `possible` links are those that a person might draw, and hold the sure ones; without them, all
    are sure. Raises ValueError where there are no links at all.
    """
    allowed = sure if possible is None else possible
    hits = total = 0
    for links, certain, might in zip(predicted, sure, allowed, strict=True):
        hits += len(links & certain) + len(links & (might | certain))
        total += len(links) + len(certain)
    if not total:
        raise ValueError("no links: nothing to compare")
    return 1 - hits / total
