"""Ancestral sampling: each symbol is drawn from P(y_t | y_<t, x)^(1/temperature).

The distribution may be truncated to the most probable symbols (top k: Fan et al. 2018; top p:
Holtzman et al. 2020). A sample does not depend on other lines: its uniform random numbers depend
only on the seed, the key of the sentence, the number of the sample and the position.

Shapes: B sentences, K samples of each, N = B·K, T symbols of a sample, V symbols of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mtkit.config.decoding import SamplingSettings
from mtkit.decoding.search.search import NEG_INF, Hypotheses, Live, Stepper, begin
from mtkit.shapes import SourceIds
from mtkit.symbols import EOS, PAD


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
        """Draw a symbol for each sample; from its EOS on, a sample only gets PAD in the pool.

        `is_last` is not needed here, because every sample is in the pool from the start.
        """
        live_count, samples, length = live.tokens.shape  # the length counts BOS
        position = length - 1  # of the symbol to draw
        noise = self.noise[live.sentences, :, position]  # (B, K)
        drawn = self._draw(log_probs, noise)  # (N, 1)
        symbols = drawn.view(live_count, samples)
        gained = log_probs.gather(1, drawn).view(live_count, samples)
        scores = live.scores + gained.masked_fill(pool.finished, 0.0)
        finished = pool.finished | (symbols == EOS)
        lengths = pool.lengths + ~finished  # EOS does not count
        rows = torch.arange(len(log_probs), device=log_probs.device)
        grown = Live(
            live.sentences,
            tokens=torch.cat([live.tokens, symbols.unsqueeze(2)], dim=2),
            scores=scores,
            parents=rows.view(live_count, samples),  # each sample extends itself
        )
        written = symbols.masked_fill(finished, PAD).unsqueeze(2)
        grown_pool = Hypotheses(
            tokens=torch.cat([pool.tokens, written], dim=2),
            lengths=lengths,
            scores=scores / lengths.clamp(min=1) ** self.length_penalty,
            finished=finished,
        )
        return grown, grown_pool

    def _draw(
        self, log_probs: Float[Tensor, "N V"], noise: Float[Tensor, "B K"]
    ) -> Int[Tensor, "N 1"]:
        """Draw a symbol per sample: the first whose cumulative probability exceeds its number."""
        logits = log_probs / self.sampling.temperature
        if self.sampling.top_k is not None:
            logits = _keep_top_k(logits, self.sampling.top_k)
        if self.sampling.top_p is not None and self.sampling.top_p < 1:
            # At 1, all symbols are kept, but rounding would cut some.
            logits = _keep_top_p(logits, self.sampling.top_p)
        cumulative = logits.softmax(-1).cumsum(dim=-1)
        # The sum is rounded, so it is only about 1. Scaled by it, no number is beyond the last one.
        total = cumulative[:, -1:]  # (N, 1)
        numbers = noise.reshape(-1, 1) * total  # (N, 1)
        # right=True: a number of exactly 0 must not select a leading symbol of probability 0.
        return torch.searchsorted(cumulative, numbers, right=True)

    def is_done(self, live: Live, pool: Hypotheses) -> Bool[Tensor, " B"]:
        """Return for each sentence whether all its samples have ended."""
        return pool.finished.all(dim=1)


def uniform_noise(
    keys: Sequence[tuple[int, ...]], count: int, length: int, seed: int
) -> Float[Tensor, "B K T"]:
    """Draw T = `length` numbers in [0, 1) for each of K = `count` samples of each key.

    The numbers of a key do not depend on other keys, and their beginning not on K or T.
    """
    rows: list[NDArray[np.float32]] = []
    for key in keys:
        for index in range(count):
            generator = np.random.default_rng((seed, *key, index))
            rows.append(generator.random(length, np.float32))
    return torch.from_numpy(np.array(rows)).view(len(keys), count, length)


def _keep_top_k(logits: Float[Tensor, "N V"], top_k: int) -> Float[Tensor, "N V"]:
    """Set all logits to -inf except the `top_k` largest, and those that equal the last of these."""
    best = logits.topk(min(top_k, logits.shape[1])).values  # descending
    smallest_kept = best[:, -1:]
    return logits.masked_fill(logits < smallest_kept, NEG_INF)


def _keep_top_p(logits: Float[Tensor, "N V"], top_p: float) -> Float[Tensor, "N V"]:
    """Set all logits to -inf except the fewest whose probabilities sum to at least `top_p`.

    Logits that equal the last one that is kept are kept, too.
    """
    ranked = logits.sort(dim=-1, descending=True).values
    # A symbol is cut if the better symbols together reach `top_p`. The sums, moved by one place,
    # are those of the better symbols.
    mass = ranked.softmax(dim=-1).cumsum(dim=-1)
    mass_of_better = mass.roll(1, dims=-1)
    mass_of_better[:, 0] = 0.0
    is_cut = mass_of_better >= top_p
    smallest_kept = ranked.masked_fill(is_cut, math.inf).amin(dim=-1, keepdim=True)
    return logits.masked_fill(logits < smallest_kept, NEG_INF)
