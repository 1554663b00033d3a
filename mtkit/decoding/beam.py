"""Beam search: for each sentence the K hypotheses y with the highest log P(y) / |y|^alpha.

A sentence stops once K hypotheses have finished (patience 1, as in CTranslate2); at `max_length`
the K best stand as they are. Finished hypotheses live in a pool of their own, so that 2K candidates
a step leave K that go on. Invariants: beam 1 is greedy; a beam as wide as the search space finds
its optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.decoding.search import NEVER, Hypotheses, Live, Stepper
from mtkit.symbols import EOS, PAD
from mtkit.terms import SourceIds

FOLD = 16
"""Symbols of which the search first compares the best alone."""


@dataclass(frozen=True)
class Beam(Stepper):
    """Keeps the `width` best hypotheses of each sentence, best first."""

    width: int
    length_penalty: float

    def begin(self, source: SourceIds) -> tuple[Live, Hypotheses]:
        """One hypothesis of each sentence: several of nothing yet would all grow alike."""
        return Live.begin(source, 1), Hypotheses.none(source, self.width)

    def grow(
        self, live: Live, pool: Hypotheses, log_probs: Float[Tensor, "N V"], *, is_last: bool
    ) -> tuple[Live, Hypotheses]:
        # Each of the K live hypotheses ends at most once: of 2K candidates, K are left to live on.
        candidates = _grow(live, log_probs, 2 * self.width)
        pool = _admit(pool, candidates, self.length_penalty, is_last=is_last)
        return _unfinished(candidates, self.width), pool

    def is_done(self, pool: Hypotheses) -> Bool[Tensor, " B"]:
        """Whether K hypotheses have finished: the pool is full."""
        return pool.scores[:, -1] > NEVER


def _grow(live: Live, log_probs: Float[Tensor, "N V"], count: int) -> Live:
    """The `count` best continuations of each sentence's hypotheses, or all if there are fewer."""
    sentences, beam = live.scores.shape
    # log P(y_1 … y_t) = log P(y_1 … y_t-1) + log P(y_t | y_1 … y_t-1), over all K·V continuations
    scores, flat = best_sums(live.scores, log_probs.view(sentences, beam, -1), count)  # (B, C)
    hypothesis, symbol = flat // log_probs.shape[1], flat % log_probs.shape[1]
    tokens = torch.cat([_take(live.tokens, hypothesis), symbol.unsqueeze(2)], dim=2)  # (B, C, T)
    first = torch.arange(0, sentences * beam, beam, device=flat.device).unsqueeze(1)  # (B, 1)
    return Live(live.sentences, tokens, scores, first + hypothesis)


def best_sums(
    totals: Float[Tensor, "B K"], log_probs: Float[Tensor, "B K V"], count: int
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"]]:
    """The `count` highest totals + log_probs of each sentence, and their places in K·V.

    Symbols are compared in groups of FOLD first: the `count` highest are in the groups of the
    `count` highest maxima, so that few are ever sorted. A last group of fewer is always looked at.
    """
    beam, vocabulary = log_probs.shape[1:]
    groups = vocabulary // FOLD  # symbols i, i + groups, i + 2 groups, ...
    grouped = log_probs[:, :, : FOLD * groups].unflatten(2, (FOLD, groups))
    maxima = (grouped.amax(dim=2) + totals.unsqueeze(2)).flatten(1)  # (B, K·groups)
    chosen = maxima.topk(min(count, maxima.shape[1]), sorted=False).indices
    first = chosen // groups * vocabulary + chosen % groups
    # Back from groups to symbols: each is one of FOLD in a group that was chosen, or in the rest.
    members = first.unsqueeze(2) + groups * torch.arange(FOLD, device=first.device)
    rest = torch.arange(FOLD * groups, vocabulary, device=first.device).repeat(beam, 1)
    rest += vocabulary * torch.arange(beam, device=first.device).unsqueeze(1)
    candidates = torch.cat([members.flatten(1), rest.view(1, -1).expand(len(totals), -1)], dim=1)
    sums = log_probs.flatten(1).gather(1, candidates) + totals.gather(1, candidates // vocabulary)
    best, index = sums.topk(min(count, sums.shape[1]))
    return best, candidates.gather(1, index)


def _admit(
    pool: Hypotheses, candidates: Live, length_penalty: float, *, is_last: bool
) -> Hypotheses:
    """The K best of the pool and of the candidates that have ended, or of all at the last step.

    Only the K best candidates count: an end ranked lower, and beam 1 would not be greedy.
    """
    beam = pool.scores.shape[1]
    tokens, scores = candidates.tokens[:, :beam, 1:], candidates.scores[:, :beam]
    ended = tokens[:, :, -1] == EOS
    lengths = tokens.shape[2] - ended.long()
    normalised = scores / lengths.clamp(min=1) ** length_penalty  # log P / |y|^alpha
    if not is_last:
        normalised = normalised.masked_fill(~ended, NEVER)
    best, index = torch.cat([pool.scores, normalised], dim=1).topk(beam)
    both = torch.cat([F.pad(pool.tokens, (0, 1)), tokens.masked_fill(tokens == EOS, PAD)], dim=1)
    return Hypotheses(
        _take(both, index),
        torch.cat([pool.lengths, lengths], dim=1).gather(1, index),
        best,
        torch.cat([pool.finished, ended], dim=1).gather(1, index),
    )


def _unfinished(candidates: Live, beam: int) -> Live:
    """The K best that have not ended."""
    ended = candidates.tokens[:, :, -1] == EOS
    scores, index = candidates.scores.masked_fill(ended, NEVER).topk(min(beam, ended.shape[1]))
    tokens, parents = _take(candidates.tokens, index), candidates.parents.gather(1, index)
    return Live(candidates.sentences, tokens, scores, parents)


def _take(tokens: Int[Tensor, "B C T"], index: Int[Tensor, "B M"]) -> Int[Tensor, "B M T"]:
    """For each sentence, the hypotheses `index`."""
    return tokens.gather(1, index.unsqueeze(2).expand(-1, -1, tokens.shape[2]))
