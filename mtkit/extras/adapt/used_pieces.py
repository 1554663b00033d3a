"""A tokenizer without the pieces that a text does not use.

A text that is split into pieces that stay is split as before:

- A unigram model finds the split with the largest sum of scores, and only other splits are lost.
- BPE merges the neighbours with the highest score. The merges within a piece do not depend on its
  context. So the pieces on the way to a piece stay, too, and other merges were not made anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from mtkit.extras.adapt.new_pieces import Sides, Splitter
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.pieces import model_from_bytes, with_pieces


def drop_unused(tokenizer: Tokenizer, sides: Sides) -> Tokenizer:
    """Return the tokenizer without the pieces that the lines do not use.

    Single characters, bytes and special symbols stay.
    """
    models = list(tokenizer.models.values())  # one for both sides, or source then target
    source = find_unused(models[0], sides[0])
    target = find_unused(models[-1], sides[1])
    if tokenizer.vocabularies[0] == tokenizer.vocabularies[1]:  # both sides have the same ids
        source = target = source & target
    changed: dict[Path, bytes] = {}
    for name, unused in zip(tokenizer.models, (source, target), strict=False):
        changed[Path(name)] = _without(tokenizer.models[name], unused)
    return Tokenizer(changed)


def find_unused(model: bytes, lines: Sequence[str]) -> set[str]:
    """Return the pieces that a SentencePiece model can lose without splitting the lines anew."""
    proto = model_from_bytes(model)
    kinds = proto.SentencePiece
    is_bpe = proto.trainer_spec.model_type == proto.trainer_spec.BPE
    # BPE merges characters into unused pieces, too, and splits these again.
    droppable = {kinds.NORMAL} if is_bpe else {kinds.NORMAL, kinds.UNUSED}
    unused: set[str] = set()
    for entry in proto.pieces:
        if entry.type in droppable and len(entry.piece) > 1:
            unused.add(entry.piece)
    splitter = Splitter(model)
    ids = set[int]()
    for line in splitter.encode(lines):
        ids.update(line)
    for number in ids:
        piece = splitter.pieces[number]
        unused.discard(piece)
        if is_bpe:
            unused.difference_update(_merged_pieces(piece, splitter.scores))
    return unused


def _merged_pieces(piece: str, scores: Mapping[str, float]) -> Iterator[str]:
    """Yield the pieces that BPE merges on the way from characters to a piece."""
    symbols = list(piece)
    while len(symbols) > 1:
        merged = [left + right for left, right in pairwise(symbols)]
        best = max(merged, key=lambda text: scores.get(text, -math.inf))  # of equals the first
        if best not in scores:  # a byte, or a symbol of the user
            return
        place = merged.index(best)
        symbols[place : place + 2] = [best]
        yield best


def _without(model: bytes, pieces: set[str]) -> bytes:
    """Return a SentencePiece model without some pieces."""
    if not pieces:
        return model
    proto = model_from_bytes(model)
    return with_pieces(proto, (entry for entry in proto.pieces if entry.piece not in pieces))
