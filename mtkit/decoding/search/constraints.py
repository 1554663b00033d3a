"""Constraints: functions that change the logits of the next symbol before the softmax.

Shapes: N hypotheses, B sentences, V symbols of the vocabulary, T symbols so far (without BOS).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.search.search import NEG_INF, Constraint, Live
from mtkit.symbols import BOS, EOS, PAD


def constraints_of(
    settings: DecodingSettings, prefixes: Sequence[Sequence[int]] = ()
) -> list[Constraint]:
    """Return the constraints in order; `prefixes` come last and override the other constraints."""
    constraints: list[Constraint] = []
    if settings.repetition_penalty != 1.0:
        constraints.append(partial(penalise_repetition, penalty=settings.repetition_penalty))
    constraints.append(partial(forbid_reserved, min_length=settings.min_length))
    if settings.no_repeat_ngram:
        constraints.append(partial(forbid_repeated_ngrams, size=settings.no_repeat_ngram))
    if any(prefixes):
        tensors = [torch.tensor(ids, dtype=torch.long) for ids in prefixes]
        padded = pad_sequence(tensors, batch_first=True, padding_value=PAD)
        constraints.append(partial(begin_with, prefixes=padded))
    return constraints


def forbid_reserved(
    logits: Float[Tensor, "N V"], live: Live, *, min_length: int
) -> Float[Tensor, "N V"]:
    """Forbid PAD and BOS; forbid EOS, too, before `min_length` symbols."""
    logits[:, PAD] = NEG_INF
    logits[:, BOS] = NEG_INF
    if live.written.shape[1] < min_length:
        logits[:, EOS] = NEG_INF
    return logits


def forbid(
    logits: Float[Tensor, "N V"], live: Live, *, symbols: Int[Tensor, " F"]
) -> Float[Tensor, "N V"]:
    """Forbid F symbols, such as target tags, which belong to sources."""
    return logits.index_fill_(1, symbols.to(logits.device), NEG_INF)


def forbid_repeated_ngrams(
    logits: Float[Tensor, "N V"], live: Live, *, size: int
) -> Float[Tensor, "N V"]:
    """Forbid repeating an n-gram of `size` symbols (Paulus et al. 2018, section 2.5).

    Wherever the last size - 1 symbols occurred before, forbid the symbol that followed them.
    """
    written = live.written
    length = written.shape[1]
    if length < size:
        return logits
    ngrams = written.unfold(1, size, 1)  # all n-grams so far: (N, T - size + 1, size)
    start = length - (size - 1)  # not a negative index: for size 1 it would be 0
    recent = written[:, start:].unsqueeze(1)  # (N, 1, size - 1)
    is_begun = (ngrams[:, :, :-1] == recent).all(dim=2)  # (N, T - size + 1)
    # `scatter_` needs a symbol for every n-gram. PAD serves, because it is forbidden anyway.
    forbidden = ngrams[:, :, -1].where(is_begun, PAD)
    return logits.scatter_(1, forbidden, NEG_INF)


def penalise_repetition(
    logits: Float[Tensor, "N V"], live: Live, *, penalty: float
) -> Float[Tensor, "N V"]:
    """Make symbols that have occurred less probable (Keskar et al. 2019, equation 2).

    Divide their logits by `penalty`; multiply negative logits, which division would increase.
    """
    written = live.written
    old = logits.gather(1, written)
    return logits.scatter_(1, written, torch.where(old < 0, old * penalty, old / penalty))


def begin_with(
    logits: Float[Tensor, "N V"], live: Live, *, prefixes: Int[Tensor, "B P"]
) -> Float[Tensor, "N V"]:
    """Force the next symbol of each prefix, with probability 1.

    `prefixes`: one row of ids for each sentence; PAD after the end of a prefix forces nothing.
    """
    length = live.written.shape[1]
    if length >= prefixes.shape[1]:
        return logits
    sentence = live.sentences.repeat_interleave(live.tokens.shape[1])  # of each hypothesis, (N,)
    symbol = prefixes.to(logits.device)[sentence, length]  # (N,)
    forced = (symbol != PAD).nonzero().squeeze(1)  # the hypotheses whose prefix has not ended
    # After the softmax, log P of the only symbol with a finite logit is 0.
    logits[forced] = NEG_INF
    logits[forced, symbol[forced]] = 0.0
    return logits
