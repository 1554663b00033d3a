"""Faithfulness: whether attention tells which source words an output word hangs on.

Attention is held against two measures of importance that are about the output itself: how far
log P of the word falls when a source word is taken out (leave one out), and gradient × input. The
question is that of Jain and Wallace 2019, and what taking out the most attended words does that of
Serrano and Smith 2019; Wiegreffe and Pinter 2019 say what such measurements cannot decide. Here the
output is a word of the translation, forced, and not the class of a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mtkit.models.base import TranslationModel
from mtkit.study.attend.importance import (
    Pair,
    attention,
    fall_without_best,
    gradient_times_input,
    leave_one_out,
)

ATTENTION, GRADIENT, LEFT_OUT, RANDOM = "attention", "gradient × input", "leave one out", "random"
RANKINGS = (LEFT_OUT, GRADIENT, ATTENTION, RANDOM)
"""What chooses the words that are taken out."""
COMPARED = ((ATTENTION, LEFT_OUT), (ATTENTION, GRADIENT), (GRADIENT, LEFT_OUT), (RANDOM, LEFT_OUT))
"""What is correlated; the third says how far the two measures of importance agree themselves."""
TAKEN_OUT = (1, 2, 3)
"""Numbers of words that are taken out."""
SEED = 1


@dataclass(frozen=True)
class Faithfulness:
    """What was measured of N sentences, each the mean over its output words."""

    log_prob_falls: Float[Tensor, "N 4 3"]
    """Falls of log P in nats, by ranking, and by how many words are taken out."""
    prob_falls: Float[Tensor, "N 4 3"]
    """Falls of P, by ranking, and by how many words are taken out."""
    kendall: Float[Tensor, "N 4"]
    """Kendall's τ-b over the source words, by pair of COMPARED."""
    spearman: Float[Tensor, "N 4"]
    """Spearman's ρ over the source words, by pair of COMPARED."""


def measure(
    model: TranslationModel, pairs: Iterable[Pair], advance: Callable[[], None]
) -> Faithfulness:
    """`advance` is called after each sentence. Each must have more words than are taken out."""
    generator = torch.Generator().manual_seed(SEED)
    rows = []
    for pair in pairs:
        rows.append(_of_sentence(model, pair, generator))
        advance()
    return Faithfulness(*(torch.stack(column).cpu() for column in zip(*rows, strict=True)))


def _of_sentence(
    model: TranslationModel, pair: Pair, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    importance = {
        LEFT_OUT: leave_one_out(model, pair),
        GRADIENT: gradient_times_input(model, pair),
        ATTENTION: attention(model, pair),
    }
    drawn = torch.rand(importance[ATTENTION].shape, generator=generator)
    importance[RANDOM] = drawn.to(importance[ATTENTION])
    scores = torch.stack([importance[name] for name in RANKINGS])
    log_prob_falls, prob_falls = fall_without_best(model, pair, scores, TAKEN_OUT)
    left, right = (torch.stack([importance[names[side]] for names in COMPARED]) for side in (0, 1))
    return (
        log_prob_falls.mean(dim=1),
        prob_falls.mean(dim=1),
        kendall(left, right).nanmean(dim=1),
        spearman(left, right).nanmean(dim=1),
    )


def kendall(a: Float[Tensor, "*of I"], b: Float[Tensor, "*of I"]) -> Float[Tensor, "*of"]:
    """Kendall's τ-b of each pair of rows; NaN where all of a row are tied."""
    return _cosine(_order(a).flatten(-2), _order(b).flatten(-2))


def spearman(a: Float[Tensor, "*of I"], b: Float[Tensor, "*of I"]) -> Float[Tensor, "*of"]:
    """Spearman's ρ of each pair of rows, the tied at their mean rank; NaN where all are."""
    # How many are below less how many are above is twice the rank, from the middle.
    return _cosine(_order(a).sum(dim=-1), _order(b).sum(dim=-1))


def _order(x: Float[Tensor, "*of I"]) -> Float[Tensor, "*of I I"]:
    """1 where i is above j, -1 where it is below, 0 where they are tied."""
    return (x.unsqueeze(-1) - x.unsqueeze(-2)).sign()


def _cosine(a: Float[Tensor, "*of X"], b: Float[Tensor, "*of X"]) -> Float[Tensor, "*of"]:
    return (a * b).sum(dim=-1) / (a.square().sum(dim=-1) * b.square().sum(dim=-1)).sqrt()
