"""What may follow a hypothesis: functions that the search asks between the model and the choice.

Each takes logits and the hypotheses so far, and gives logits; the softmax comes after the last one,
so that the probability of what is left sums to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.search import NEVER, Constraint, Live
from mtkit.symbols import BOS, EOS, PAD

RESERVED = 3
"""Symbols that are no part of a translation: PAD, BOS and EOS."""


def constraints_of(
    settings: DecodingSettings, prefixes: Sequence[Sequence[int]] = ()
) -> list[Constraint]:
    """All that is asked for, in the order in which they apply: a given prefix has the last word.

    `prefixes`: how the translations of each sentence of the batch begin; all empty, or none there,
    where nothing is given.
    """
    constraints: list[Constraint] = []
    if settings.repetition_penalty != 1.0:
        constraints.append(partial(penalise_repetition, penalty=settings.repetition_penalty))
    constraints.append(partial(forbid_reserved, min_length=settings.min_length))
    if settings.no_repeat_ngram:
        constraints.append(partial(forbid_repeated_ngrams, size=settings.no_repeat_ngram))
    if any(prefixes):
        padded = pad_sequence([torch.tensor(ids, dtype=torch.long) for ids in prefixes], True, PAD)
        constraints.append(partial(begin_with, prefixes=padded))
    return constraints


def forbid_reserved(
    logits: Float[Tensor, "N V"], live: Live, *, min_length: int
) -> Float[Tensor, "N V"]:
    """Neither PAD nor BOS, nor the end before `min_length` symbols."""
    logits[:, PAD] = NEVER
    logits[:, BOS] = NEVER
    if live.written.shape[1] < min_length:
        logits[:, EOS] = NEVER
    return logits


def forbid_repeated_ngrams(
    logits: Float[Tensor, "N V"], live: Live, *, size: int
) -> Float[Tensor, "N V"]:
    """No `size` symbols in a row that are there already (Paulus et al. 2018, section 2.5)."""
    written = live.written
    length, vocabulary = written.shape[1], logits.shape[1]
    if length < size:
        return logits
    ngrams = written.unfold(1, size, 1)  # (N, T - size + 1, size)
    recent = written[:, length - size + 1 :].unsqueeze(1)  # (N, 1, size - 1)
    is_begun = (ngrams[:, :, :-1] == recent).all(dim=2)  # (N, T - size + 1)
    completion = ngrams[:, :, -1].where(is_begun, PAD)  # PAD is forbidden anyway
    logits.scatter_(1, completion, NEVER)
    if length >= vocabulary - RESERVED:  # all symbols may be used up: then the end may follow
        logits[(logits == NEVER).all(dim=1), EOS] = 0.0
    return logits


def penalise_repetition(
    logits: Float[Tensor, "N V"], live: Live, *, penalty: float
) -> Float[Tensor, "N V"]:
    """Logits of symbols that are there already, once or more, are lowered by the factor `penalty`.

    Positive ones are divided by it, negative ones multiplied (Keskar et al. 2019, equation 2, with
    the mend for negative logits that all libraries make).
    """
    written = live.written
    found = logits.gather(1, written)
    return logits.scatter_(1, written, torch.where(found < 0, found * penalty, found / penalty))


def begin_with(
    logits: Float[Tensor, "N V"], live: Live, *, prefixes: Int[Tensor, "B P"]
) -> Float[Tensor, "N V"]:
    """Within its prefix a sentence has no choice: P of the given symbol is 1, whatever it costs.

    `prefixes` are padded with PAD, where the choice is free.
    """
    length = live.written.shape[1]
    if length >= prefixes.shape[1]:
        return logits
    given = prefixes.to(logits.device)[live.rows, length]
    bound = (given != PAD).nonzero().squeeze(1)
    logits[bound] = NEVER
    logits[bound, given[bound]] = 0.0
    return logits
