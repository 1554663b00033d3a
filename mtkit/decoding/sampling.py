"""Ancestral sampling: each symbol is drawn from P(y_t | y_<t, x)^(1/temperature), truncated to the
most probable symbols where asked for (Fan et al. 2018: top k; Holtzman et al. 2020: top p).

A draw inverts the cumulative distribution at a uniform number, and these numbers are a function of
(seed, key of the sentence, which of its samples, position): a line is sampled alike in any company.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.config.decoding import SamplingSettings
from mtkit.decoding.search import NEVER, Hypotheses, Live, Stepper
from mtkit.symbols import EOS, PAD
from mtkit.terms import SourceIds


@dataclass(frozen=True)
class Sampler(Stepper):
    """Draws K samples of each sentence, in that order.

    Scores are those of the model as it is, with no temperature or truncation.
    """

    sampling: SamplingSettings
    noise: Float[Tensor, "B K T"]
    """Uniform numbers in [0, 1): one for each symbol of each sample."""
    length_penalty: float

    def begin(self, source: SourceIds) -> tuple[Live, Hypotheses]:
        count = self.noise.shape[1]
        return Live.begin(source, count), Hypotheses.none(source, count)

    def grow(
        self, live: Live, pool: Hypotheses, log_probs: Float[Tensor, "N V"], *, is_last: bool
    ) -> tuple[Live, Hypotheses]:
        """What has not ended grows by a symbol; what has, by padding."""
        sentences, count, length = live.tokens.shape
        noise = self.noise[live.sentences, :, length - 1].reshape(-1, 1)
        drawn = _draw(log_probs, noise, self.sampling)  # (N, 1)
        symbols = drawn.view(sentences, count)
        gained = log_probs.gather(1, drawn).view(sentences, count)
        scores = live.scores + gained.masked_fill(pool.finished, 0.0)
        finished = pool.finished | (symbols == EOS)
        lengths = pool.lengths + ~finished
        tokens = symbols.masked_fill(finished, PAD).unsqueeze(2)
        own_rows = torch.arange(len(log_probs), device=log_probs.device).view(sentences, count)
        grown = torch.cat([live.tokens, symbols.unsqueeze(2)], dim=2)
        written = torch.cat([pool.tokens, tokens], dim=2)
        normalised = scores / lengths.clamp(min=1) ** self.length_penalty
        return (
            Live(live.sentences, grown, scores, own_rows),
            Hypotheses(written, lengths, normalised, finished),
        )

    def is_done(self, pool: Hypotheses) -> Bool[Tensor, " B"]:
        """Whether every sample has ended."""
        return pool.finished.all(dim=1)


def uniform_noise(
    keys: Sequence[tuple[int, ...]], count: int, length: int, seed: int
) -> Float[Tensor, "B K T"]:
    """Numbers in [0, 1), the same for a key whatever the other keys, `count` and `length`."""
    rows = [
        np.random.default_rng((seed, *key, index)).random(length, np.float32)
        for key in keys
        for index in range(count)
    ]
    return torch.from_numpy(np.array(rows)).view(len(keys), count, length)


def _draw(
    log_probs: Float[Tensor, "N V"], noise: Float[Tensor, "N 1"], sampling: SamplingSettings
) -> Int[Tensor, "N 1"]:
    """The symbol at which the cumulative probability first exceeds `noise` (of the total)."""
    probabilities = _truncate(log_probs / sampling.temperature, sampling).softmax(dim=-1)
    cumulative = probabilities.cumsum(dim=-1)
    return torch.searchsorted(cumulative, noise * cumulative[:, -1:], right=True)


def _truncate(logits: Float[Tensor, "N V"], sampling: SamplingSettings) -> Float[Tensor, "N V"]:
    """-inf for symbols outside the `top_k`, and outside the fewest whose sum reaches `top_p`."""
    if sampling.top_k is not None:
        least = logits.topk(min(sampling.top_k, logits.shape[1])).values[:, -1:]
        logits = logits.masked_fill(logits < least, NEVER)
    if sampling.top_p is not None and sampling.top_p < 1:  # of 1 a sum of float32 would cut some
        ranked = logits.sort(dim=-1, descending=True).values
        before = ranked.softmax(dim=-1).cumsum(dim=-1).roll(1, dims=-1)
        before[:, 0] = 0.0
        least = ranked.masked_fill(before >= sampling.top_p, -NEVER).amin(dim=-1, keepdim=True)
        logits = logits.masked_fill(logits < least, NEVER)
    return logits
