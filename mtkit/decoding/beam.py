"""Beam search: for each sentence the K hypotheses y with the highest log P(y) / |y|^alpha.

P is among the symbols that may follow: never PAD or BOS, nor the end before `min_length`. The end
counts in P but not in |y| (an empty y counts as one symbol). A sentence stops once K hypotheses
have finished (patience 1, as in CTranslate2); at `max_length` the K best stand as they are.
Finished hypotheses live in a pool of their own, where scores are normalised; those of live ones are
sums. Invariants: beam 1 is greedy; a beam as wide as the search space finds its optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.config.decoding import DecodingSettings
from mtkit.models.base import TranslationModel, select
from mtkit.terms import SourceIds
from mtkit.tokenizer.symbols import BOS, EOS, PAD

NEVER = float("-inf")
FOLD = 16
"""Symbols of which the search first compares the best alone."""


@dataclass(frozen=True)
class Hypotheses:
    """K translations of each sentence."""

    tokens: Int[Tensor, "B K T"]
    """Without EOS, padded with PAD."""
    lengths: Int[Tensor, "B K"]
    scores: Float[Tensor, "B K"]
    """log P / |y|^alpha; -inf where a sentence has fewer than K hypotheses."""
    finished: Bool[Tensor, "B K"]
    """Whether it ended in EOS, rather than at `max_length`."""


@dataclass(frozen=True)
class _Candidates:
    """Hypotheses grown by one symbol, best first; K = 1 before the first step."""

    tokens: Int[Tensor, "B K T"]
    """From BOS on."""
    scores: Float[Tensor, "B K"]
    """log P."""
    parents: Int[Tensor, "B K"]
    """Which of the N rows of the decoder's state each one grew from."""


@torch.inference_mode()
def beam_search(
    model: TranslationModel, source: SourceIds, settings: DecodingSettings
) -> Hypotheses:
    """The `settings.beam` best of each sentence, best first; `model` must be in evaluation mode."""
    beam, longest = settings.beam, settings.max_length
    memory = model.encode(source, source != PAD)
    state = model.start(memory)
    live = _start(source)
    pool = _empty_pool(source, beam)
    sentences = torch.arange(source.shape[0], device=source.device)  # those still searched
    done = []
    for length in range(longest):
        decoded = model.decode(memory, state, live.tokens[:, :, -1].reshape(-1, 1))
        log_probs = allowed_log_probs(model.project(decoded.hidden[:, -1]), length, settings)
        candidates = _grow(live, log_probs, 2 * beam)  # so that K of them live on
        pool = _admit(pool, candidates, settings.length_penalty, stand=length + 1 == longest)
        live = _unfinished(candidates, beam)
        full = pool.scores[:, -1] > NEVER
        open_ = (~full).nonzero().squeeze(1)
        if len(open_) < len(sentences):  # finished sentences leave the batch
            done.append(select((sentences, pool), full.nonzero().squeeze(1)))
            sentences, pool, memory, live = select((sentences, pool, memory, live), open_)
        if not len(open_):
            break
        state = select(decoded.state, live.parents.flatten())
    return in_order([*done, (sentences, pool)])


def allowed_log_probs(
    logits: Float[Tensor, "N V"], length: int, settings: DecodingSettings
) -> Float[Tensor, "N V"]:
    """log P of each symbol after `length` others, in float32; -inf for what may not follow.

    Float32 logits are overwritten: here a second block of memory would cost more than the softmax.
    """
    logits = logits.float()
    logits[:, PAD] = NEVER
    logits[:, BOS] = NEVER
    if length < settings.min_length:
        logits[:, EOS] = NEVER
    return torch.log_softmax(logits, dim=-1, out=logits)


def in_order(parts: list[tuple[Tensor, Hypotheses]]) -> Hypotheses:
    """Puts sentences that left the batch at different steps back into their places."""
    width = max(part.tokens.shape[2] for _, part in parts)
    order = torch.cat([sentences for sentences, _ in parts]).argsort()
    whole = Hypotheses(
        torch.cat([F.pad(part.tokens, (0, width - part.tokens.shape[2])) for _, part in parts]),
        torch.cat([part.lengths for _, part in parts]),
        torch.cat([part.scores for _, part in parts]),
        torch.cat([part.finished for _, part in parts]),
    )
    return select(whole, order)


def _start(source: SourceIds) -> _Candidates:
    scores = torch.zeros(source.shape[0], 1, device=source.device)
    tokens = source.new_full((source.shape[0], 1, 1), BOS)
    return _Candidates(tokens, scores, torch.zeros_like(tokens[:, :, 0]))


def _empty_pool(source: SourceIds, beam: int) -> Hypotheses:
    lengths = source.new_zeros(source.shape[0], beam)
    scores = torch.full(lengths.shape, NEVER, device=source.device)
    return Hypotheses(lengths.new_zeros(*lengths.shape, 0), lengths, scores, lengths.bool())


def _grow(live: _Candidates, log_probs: Float[Tensor, "N V"], count: int) -> _Candidates:
    """The `count` best continuations of each sentence's hypotheses, or all if there are fewer."""
    sentences, beam = live.scores.shape
    scores, flat = best_sums(live.scores, log_probs.view(sentences, beam, -1), count)
    hypothesis, symbol = flat // log_probs.shape[1], flat % log_probs.shape[1]
    tokens = torch.cat([_take(live.tokens, hypothesis), symbol.unsqueeze(2)], dim=2)
    first = torch.arange(0, sentences * beam, beam, device=flat.device).unsqueeze(1)
    return _Candidates(tokens, scores, first + hypothesis)


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
    members = first.unsqueeze(2) + groups * torch.arange(FOLD, device=first.device)
    rest = torch.arange(FOLD * groups, vocabulary, device=first.device).repeat(beam, 1)
    rest += vocabulary * torch.arange(beam, device=first.device).unsqueeze(1)
    candidates = torch.cat([members.flatten(1), rest.view(1, -1).expand(len(totals), -1)], dim=1)
    sums = log_probs.flatten(1).gather(1, candidates) + totals.gather(1, candidates // vocabulary)
    best, index = sums.topk(min(count, sums.shape[1]))
    return best, candidates.gather(1, index)


def _admit(
    pool: Hypotheses, candidates: _Candidates, length_penalty: float, *, stand: bool
) -> Hypotheses:
    """The K best of the pool and of the candidates that have ended, or of all if they `stand`.

    Only the K best candidates count: an end ranked lower, and beam 1 would not be greedy.
    """
    beam = pool.scores.shape[1]
    tokens, scores = candidates.tokens[:, :beam, 1:], candidates.scores[:, :beam]
    ended = tokens[:, :, -1] == EOS
    lengths = tokens.shape[2] - ended.long()
    normalised = scores / lengths.clamp(min=1) ** length_penalty
    if not stand:
        normalised = normalised.masked_fill(~ended, NEVER)
    best, index = torch.cat([pool.scores, normalised], dim=1).topk(beam)
    return Hypotheses(
        _take(
            torch.cat([F.pad(pool.tokens, (0, 1)), tokens.masked_fill(tokens == EOS, PAD)], 1),
            index,
        ),
        torch.cat([pool.lengths, lengths], dim=1).gather(1, index),
        best,
        torch.cat([pool.finished, ended], dim=1).gather(1, index),
    )


def _unfinished(candidates: _Candidates, beam: int) -> _Candidates:
    """The K best that have not ended."""
    ended = candidates.tokens[:, :, -1] == EOS
    scores, index = candidates.scores.masked_fill(ended, NEVER).topk(min(beam, ended.shape[1]))
    return _Candidates(_take(candidates.tokens, index), scores, candidates.parents.gather(1, index))


def _take(tokens: Int[Tensor, "B C T"], index: Int[Tensor, "B M"]) -> Int[Tensor, "B M T"]:
    """For each sentence, the hypotheses `index`."""
    return tokens.gather(1, index.unsqueeze(2).expand(-1, -1, tokens.shape[2]))
