"""Ancestral sampling: each symbol is drawn from P(y_t | y_<t, x)^(1/temperature).

The distribution may be truncated to the most probable symbols (top k: Fan et al. 2018; top p:
Holtzman et al. 2020). A sample does not depend on other lines: its uniform random numbers depend
only on the seed, the key of the sentence, the number of the sample and the position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.config.decoding import SamplingSettings
from mtkit.decoding.search.search import NEG_INF, Hypotheses, Live, Stepper, begin
from mtkit.symbols import EOS, PAD
from mtkit.terms import SourceIds


@dataclass(frozen=True)
class Sampler(Stepper):
    """Sampling of K translations per sentence; scores ignore temperature, top-k and top-p."""

    sampling: SamplingSettings
    noise: Float[Tensor, "B K T"]
    """A uniform random number in [0, 1) for each symbol of each sample."""
    length_penalty: float

    def begin(self, source: SourceIds) -> tuple[Live, Hypotheses]:
        return begin(source, self.noise.shape[1], self.noise.shape[1])

    def grow(
        self, live: Live, pool: Hypotheses, log_probs: Float[Tensor, "N V"], *, is_last: bool
    ) -> tuple[Live, Hypotheses]:
        """Add a symbol to each sample, or PAD to a sample that has ended."""
        sentences, count, length = live.tokens.shape
        drawn = self._draw(log_probs, self.noise[live.sentences, :, length - 1])  # (N, 1)
        symbols = drawn.view(sentences, count)
        gained = log_probs.gather(1, drawn).view(sentences, count)
        scores = live.scores + gained.masked_fill(pool.finished, 0.0)
        finished = pool.finished | (symbols == EOS)
        lengths = pool.lengths + ~finished
        rows = torch.arange(len(log_probs), device=log_probs.device)
        grown = Live(
            live.sentences,
            tokens=torch.cat([live.tokens, symbols.unsqueeze(2)], dim=2),
            scores=scores,
            parents=rows.view(sentences, count),  # each sample extends itself
        )
        written = symbols.masked_fill(finished, PAD).unsqueeze(2)
        samples = Hypotheses(
            tokens=torch.cat([pool.tokens, written], dim=2),
            lengths=lengths,
            scores=scores / lengths.clamp(min=1) ** self.length_penalty,
            finished=finished,
        )
        return grown, samples

    def _draw(
        self, log_probs: Float[Tensor, "N V"], noise: Float[Tensor, "B K"]
    ) -> Int[Tensor, "N 1"]:
        """Return for each sample the symbol into whose share of [0, 1) its number falls."""
        logits = _truncate(log_probs / self.sampling.temperature, self.sampling)
        cumulative = logits.softmax(-1).cumsum(dim=-1)
        total = cumulative[:, -1:]  # not exactly 1, because the sum is rounded
        return torch.searchsorted(cumulative, noise.reshape(-1, 1) * total, right=True)

    def is_done(self, pool: Hypotheses) -> Bool[Tensor, " B"]:
        """Return for each sentence whether all its samples have ended."""
        return pool.finished.all(dim=1)


def uniform_noise(
    keys: Sequence[tuple[int, ...]], count: int, length: int, seed: int
) -> Float[Tensor, "B K T"]:
    """Draw numbers in [0, 1); those of a key do not depend on other keys, `count` or `length`."""
    rows = [
        np.random.default_rng((seed, *key, index)).random(length, np.float32)
        for key in keys
        for index in range(count)
    ]
    return torch.from_numpy(np.array(rows)).view(len(keys), count, length)


def _truncate(logits: Float[Tensor, "N V"], sampling: SamplingSettings) -> Float[Tensor, "N V"]:
    """Keep the `top_k` best logits, then the fewest that sum to `top_p`; set the rest to -inf."""
    if sampling.top_k is not None:
        best = logits.topk(min(sampling.top_k, logits.shape[1])).values
        logits = logits.masked_fill(logits < best[:, -1:], NEG_INF)
    if sampling.top_p is not None and sampling.top_p < 1:  # at 1, rounding would cut symbols
        ranked = logits.sort(dim=-1, descending=True).values
        # A symbol stays if the better symbols together have less than `top_p`.
        better = ranked.softmax(dim=-1).cumsum(dim=-1).roll(1, dims=-1)
        better[:, 0] = 0.0
        kept = ranked.masked_fill(better >= sampling.top_p, -NEG_INF)
        logits = logits.masked_fill(logits < kept.amin(dim=-1, keepdim=True), NEG_INF)
    return logits
