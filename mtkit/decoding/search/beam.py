"""Beam search: for each sentence the K hypotheses y with the highest log P(y) / |y|^alpha.

The search for a sentence ends once K hypotheses have finished (patience 1, as in CTranslate2). At
`max_length` it returns the K best hypotheses, finished or not. With K = 1 the search is greedy.

Shapes: B sentences, K live hypotheses of each (1 at the first step), N = B·K, C candidates of each
sentence, T symbols so far, V symbols of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.decoding.search.search import NEG_INF, Hypotheses, Live, Stepper, begin
from mtkit.shapes import SourceIds
from mtkit.symbols import EOS, PAD

GROUP_SIZE = 16
"""Symbols per group: `best_sums` sorts only the groups of symbols with the largest maxima."""


@dataclass(frozen=True)
class Beam(Stepper):
    """Beam search that keeps the `width` best hypotheses of each sentence, best first."""

    width: int
    length_penalty: float

    def begin(self, source: SourceIds) -> tuple[Live, Hypotheses]:
        """Return one live hypothesis per sentence, because K equal ones would stay equal."""
        return begin(source, 1, self.width)

    def grow(
        self, live: Live, pool: Hypotheses, log_probs: Float[Tensor, "N V"], *, is_last: bool
    ) -> tuple[Live, Hypotheses]:
        sentences, beam = live.scores.shape
        vocabulary = log_probs.shape[1]
        # log P(y_1 … y_t) = log P(y_1 … y_t-1) + log P(y_t | y_1 … y_t-1), over all continuations.
        # Each of the K hypotheses can end once, so at least K of 2K candidates stay live.
        by_sentence = log_probs.view(sentences, beam, vocabulary)
        # Candidates are numbered hypothesis · V + symbol.
        scores, candidates = best_sums(live.scores, by_sentence, 2 * self.width)  # (B, C)
        hypothesis = candidates // vocabulary
        symbol = candidates % vocabulary
        before = take(live.tokens, hypothesis)
        tokens = torch.cat([before, symbol.unsqueeze(2)], dim=2)  # (B, C, T + 1)
        pool = admit(
            pool,
            tokens[:, :, 1:],  # without BOS
            scores,
            self.length_penalty,
            is_last=is_last,
        )
        unfinished = scores.masked_fill(symbol == EOS, NEG_INF)
        best, index = unfinished.topk(min(self.width, symbol.shape[1]))
        # Sentence b has the decoder's rows from b·K on.
        first_rows = torch.arange(0, sentences * beam, beam, device=candidates.device)
        rows = first_rows.unsqueeze(1) + hypothesis  # (B, C)
        grown = Live(
            live.sentences,
            tokens=take(tokens, index),
            scores=best,
            parents=rows.gather(1, index),
        )
        return grown, pool

    def is_done(self, live: Live, pool: Hypotheses) -> Bool[Tensor, " B"]:
        """Return for each sentence whether K hypotheses have finished."""
        return pool.scores[:, -1] > NEG_INF  # the pool is sorted, so its last place fills up last


def best_sums(
    totals: Float[Tensor, "B K"], log_probs: Float[Tensor, "B K V"], count: int
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Return for each sentence the `count` largest totals + log_probs, and their indices in K·V.

    If there are fewer than `count` sums, return all, sorted.

    The symbols of each hypothesis form groups. The largest sums are in the `count` groups with the
    largest maxima, because each of these groups has a sum at least as large as all other groups.
    So only the members of `count` groups are sorted, instead of all K·V sums.
    """
    vocabulary = log_probs.shape[2]
    candidates = _candidates(totals, log_probs, count)  # (B, M)
    hypothesis = candidates // vocabulary
    gained = log_probs.flatten(1).gather(1, candidates)
    sums = gained + totals.gather(1, hypothesis)
    best, index = sums.topk(min(count, sums.shape[1]))
    return best, candidates.gather(1, index)


def _candidates(
    totals: Float[Tensor, "B K"], log_probs: Float[Tensor, "B K V"], count: int
) -> Int[Tensor, "B M"]:
    """Return indices in K·V: the members of the best groups, and all symbols in no group."""
    sentences, beam, vocabulary = log_probs.shape
    device = log_probs.device
    # With G groups, a group has the symbols i, i + G, i + 2·G, ...; so the maxima of all groups are
    # a maximum over rows, which is faster than over neighbours.
    groups = vocabulary // GROUP_SIZE
    in_groups = GROUP_SIZE * groups
    grouped = log_probs[:, :, :in_groups].unflatten(2, (GROUP_SIZE, groups))  # (B, K, 16, G)
    maxima = grouped.amax(dim=2) + totals.unsqueeze(2)  # (B, K, G)
    maxima = maxima.flatten(1)  # (B, K·G)
    best = maxima.topk(min(count, maxima.shape[1]), sorted=False).indices  # (B, best groups)
    hypothesis = best // groups
    first_symbol = best % groups
    first = hypothesis * vocabulary + first_symbol
    members = first.unsqueeze(2) + groups * torch.arange(GROUP_SIZE, device=device)
    # V need not be a multiple of GROUP_SIZE: the last symbols of each hypothesis are in no group.
    starts = vocabulary * torch.arange(beam, device=device)  # of the hypotheses in K·V
    rest = starts.unsqueeze(1) + torch.arange(in_groups, vocabulary, device=device)
    rest_of_all = rest.view(1, -1).expand(sentences, -1)
    return torch.cat([members.flatten(1), rest_of_all], dim=1)


def admit(
    pool: Hypotheses,
    tokens: Int[Tensor, "B C T"],
    scores: Float[Tensor, "B C"],
    length_penalty: float,
    *,
    is_last: bool,
) -> Hypotheses:
    """Return the K best among the pool and the ended candidates (at the last step, all candidates).

    Candidates come best first. Only the K best may enter the pool, because otherwise beam 1 would
    not be greedy.
    """
    beam = pool.scores.shape[1]
    tokens = tokens[:, :beam]
    ended = tokens[:, :, -1] == EOS
    lengths = tokens.shape[2] - ended.long()  # EOS does not count
    normalised = scores[:, :beam] / lengths.clamp(min=1) ** length_penalty  # log P / |y|^alpha
    if not is_last:
        normalised = normalised.masked_fill(~ended, NEG_INF)
    best, index = torch.cat([pool.scores, normalised], dim=1).topk(beam)
    old_tokens = F.pad(pool.tokens, (0, 1), value=PAD)  # as long as those of this step
    new_tokens = tokens.masked_fill(tokens == EOS, PAD)
    return Hypotheses(
        tokens=take(torch.cat([old_tokens, new_tokens], dim=1), index),
        lengths=torch.cat([pool.lengths, lengths], dim=1).gather(1, index),
        scores=best,
        finished=torch.cat([pool.finished, ended], dim=1).gather(1, index),
    )


def take(tokens: Int[Tensor, "B C T"], index: Int[Tensor, "B M"]) -> Int[Tensor, "B M T"]:
    """Return for each sentence the hypotheses that `index` selects."""
    return tokens.gather(1, index.unsqueeze(2).expand(-1, -1, tokens.shape[2]))
