"""The search for translations: one loop for beam search and sampling, with any model.

In each step the model predicts logits, the constraints change them, and a `Stepper` extends the
hypotheses: `Beam` keeps the best, `Sampler` draws at random. The decoder reads N = B·K rows: the K
hypotheses of a sentence are next to each other. Each sentence has a pool of K finished hypotheses.
A live hypothesis has the score log P, a finished hypothesis log P / |y|^alpha. P is normalised over
the symbols that the constraints allow. EOS counts in P but not in the length |y|, which is at
least 1.

Shapes: B sentences that are still in the batch, T symbols so far, V symbols of the vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.models.interfaces import TranslationModel, select
from mtkit.shapes import SourceIds
from mtkit.symbols import BOS, PAD

NEG_INF = float("-inf")


@dataclass(frozen=True)
class Hypotheses:
    """K translations of each sentence."""

    tokens: Int[Tensor, "B K T"]
    """Symbols without EOS, padded with PAD."""
    lengths: Int[Tensor, "B K"]
    """Number of symbols in each hypothesis."""
    scores: Float[Tensor, "B K"]
    """log P / |y|^alpha; -inf marks an empty place."""
    finished: Bool[Tensor, "B K"]
    """Whether a hypothesis ended in EOS; otherwise it was cut at `max_length`."""


@dataclass(frozen=True)
class Live:
    """The K unfinished hypotheses of each sentence that is still in the batch."""

    sentences: Int[Tensor, " B"]
    """The row in the source of each sentence that is still in the batch."""
    tokens: Int[Tensor, "B K T"]
    """Symbols with BOS; all hypotheses have the same length."""
    scores: Float[Tensor, "B K"]
    """log P."""
    parents: Int[Tensor, "B K"]
    """Which of the decoder's N rows each hypothesis has extended in the last step."""

    @property
    def written(self) -> Int[Tensor, "N T"]:
        """The symbols so far without BOS, one row per hypothesis."""
        return self.tokens.flatten(0, 1)[:, 1:]


Constraint = Callable[[Float[Tensor, "N V"], Live], Float[Tensor, "N V"]]
"""A function that changes the logits of the next symbol, in place or not; -inf forbids a symbol.

It gets all symbols so far, so it needs no state, which the search would have to reorder.
"""


class Stepper(ABC):
    """A way to extend hypotheses."""

    @abstractmethod
    def begin(self, source: SourceIds) -> tuple[Live, Hypotheses]:
        """Return live hypotheses without symbols, and an empty pool."""

    @abstractmethod
    def grow(
        self, live: Live, pool: Hypotheses, log_probs: Float[Tensor, "N V"], *, is_last: bool
    ) -> tuple[Live, Hypotheses]:
        """Add a symbol (`is_last`: the last one possible); return live and finished hypotheses."""

    @abstractmethod
    def is_done(self, live: Live, pool: Hypotheses) -> Bool[Tensor, " B"]:
        """Return for each sentence whether its search is complete."""


def begin(source: SourceIds, live: int, pool: int) -> tuple[Live, Hypotheses]:
    """Return for each sentence `live` hypotheses with only BOS, and `pool` empty places."""
    sentences = len(source)
    device = source.device
    hypotheses = Live(
        sentences=torch.arange(sentences, device=device),
        tokens=source.new_full((sentences, live, 1), BOS),
        scores=torch.zeros(sentences, live, device=device),
        parents=source.new_zeros(sentences, live),
    )
    places = Hypotheses(
        tokens=source.new_zeros(sentences, pool, 0),
        lengths=source.new_zeros(sentences, pool),
        scores=torch.full((sentences, pool), NEG_INF, device=device),
        finished=torch.zeros(sentences, pool, dtype=torch.bool, device=device),
    )
    return hypotheses, places


@torch.inference_mode()
def search(
    model: TranslationModel[Any, Any],
    source: SourceIds,
    stepper: Stepper,
    constraints: Sequence[Constraint],
    max_length: int,
) -> Hypotheses:
    """Return K translations of each source sentence; `model` must be in evaluation mode."""
    memory = model.encode(source, source != PAD)
    live, pool = stepper.begin(source)
    state = model.start(memory, live.tokens.shape[1])
    left_batch: list[tuple[Tensor, Hypotheses]] = []
    for length in range(max_length):
        # The decoder knows the earlier symbols of each hypothesis by its state.
        last_symbols = live.tokens[:, :, -1].reshape(-1, 1)  # (N, 1)
        decoded = model.decode(memory, state, last_symbols)
        logits = model.project(decoded.hidden[:, -1]).float()  # (N, V)
        for constrain in constraints:
            logits = constrain(logits, live)
        # In place, because allocating N·V more numbers would take longer than the softmax.
        log_probs = torch.log_softmax(logits, dim=-1, out=logits)
        live, pool = stepper.grow(live, pool, log_probs, is_last=length + 1 == max_length)
        is_done = stepper.is_done(live, pool)  # (B,)
        ongoing = (~is_done).nonzero().squeeze(1)
        if len(ongoing) < len(is_done):
            done = is_done.nonzero().squeeze(1)
            left_batch.append(select((live.sentences, pool), done))
            memory, live, pool = select((memory, live, pool), ongoing)
        if not len(ongoing):
            break
        # `parents` are numbered as the rows that the decoder has just read, also of sentences that
        # have left the batch. Selecting copies the state, which is not necessary if all sentences
        # stay and each hypothesis extends itself.
        state = decoded.state
        parents = live.parents.flatten()
        rows = torch.arange(len(log_probs), device=parents.device)
        if not torch.equal(parents, rows):
            state = select(state, parents)
    left_batch.append((live.sentences, pool))
    return _in_order(left_batch)


def _in_order(left_batch: Sequence[tuple[Tensor, Hypotheses]]) -> Hypotheses:
    """Return the hypotheses of all sentences in the order of the source.

    `left_batch`: the numbers of sentences that left the batch at the same step, and their pools.
    """
    sentences = [numbers for numbers, _ in left_batch]
    pools = [pool for _, pool in left_batch]
    width = max(pool.tokens.shape[2] for pool in pools)
    tokens: list[Tensor] = []
    for pool in pools:
        missing = width - pool.tokens.shape[2]
        tokens.append(F.pad(pool.tokens, (0, missing), value=PAD))
    together = Hypotheses(
        tokens=torch.cat(tokens),
        lengths=torch.cat([pool.lengths for pool in pools]),
        scores=torch.cat([pool.scores for pool in pools]),
        finished=torch.cat([pool.finished for pool in pools]),
    )
    # Row i of the result is that of the i-th smallest number, which is sentence i.
    order = torch.cat(sentences).argsort()
    return select(together, order)
