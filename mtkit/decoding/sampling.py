"""Ancestral sampling: each symbol is drawn from P(y_t | y_<t, x)^(1/temperature).

The distribution may be truncated to the most probable symbols (Fan et al. 2018: top k; Holtzman et
al. 2020: top p). A draw inverts the cumulative distribution at a uniform number. These numbers
depend on (seed, key of the sentence, index of the sample, position) alone, and so the samples of a
line do not depend on other lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.config.decoding import SamplingSettings
from mtkit.decoding.search import NEG_INF, Hypotheses, Live, Stepper
from mtkit.symbols import EOS, PAD
from mtkit.terms import SourceIds


@dataclass(frozen=True)
class Sampler(Stepper):
    """Draws K samples of each sentence.

    Scores are those of the model itself, without temperature or truncation.
    """

    sampling: SamplingSettings
    noise: Float[Tensor, "B K T"]
    """A uniform number in [0, 1) for each symbol of each sample."""
    length_penalty: float

    def begin(self, source: SourceIds) -> tuple[Live, Hypotheses]:
        count = self.noise.shape[1]
        return Live.begin(source, count), Hypotheses.none(source, count)

    def grow(
        self, live: Live, pool: Hypotheses, log_probs: Float[Tensor, "N V"], *, is_last: bool
    ) -> tuple[Live, Hypotheses]:
        """Add a symbol to each sample; padding to those that have ended."""
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
        """Return whether every sample has ended."""
        return pool.finished.all(dim=1)


def uniform_noise(
    keys: Sequence[tuple[int, ...]], count: int, length: int, seed: int
) -> Float[Tensor, "B K T"]:
    """Return numbers in [0, 1); those of a key depend on no other key, `count` or `length`."""
    rows = [
        np.random.default_rng((seed, *key, index)).random(length, np.float32)
        for key in keys
        for index in range(count)
    ]
    return torch.from_numpy(np.array(rows)).view(len(keys), count, length)


def _draw(
    log_probs: Float[Tensor, "N V"], noise: Float[Tensor, "N 1"], sampling: SamplingSettings
) -> Int[Tensor, "N 1"]:
    """Return the symbol at which the cumulative probability exceeds `noise` times the total."""
    probabilities = _truncate(log_probs / sampling.temperature, sampling).softmax(dim=-1)
    cumulative = probabilities.cumsum(dim=-1)
    return torch.searchsorted(cumulative, noise * cumulative[:, -1:], right=True)


def _truncate(logits: Float[Tensor, "N V"], sampling: SamplingSettings) -> Float[Tensor, "N V"]:
    """Set to -inf all but the `top_k` symbols, and all but the fewest that sum to `top_p`."""
    if sampling.top_k is not None:
        lowest = logits.topk(min(sampling.top_k, logits.shape[1])).values[:, -1:]
        logits = logits.masked_fill(logits < lowest, NEG_INF)
    if sampling.top_p is not None and sampling.top_p < 1:  # with 1, rounding would cut some
        ranked = logits.sort(dim=-1, descending=True).values
        before = ranked.softmax(dim=-1).cumsum(dim=-1).roll(1, dims=-1)
        before[:, 0] = 0.0
        lowest = ranked.masked_fill(before >= sampling.top_p, -NEG_INF).amin(dim=-1, keepdim=True)
        logits = logits.masked_fill(logits < lowest, NEG_INF)
    return logits
