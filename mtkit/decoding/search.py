"""The search for translations: one loop for beam search and sampling, with any model.

A step asks the model for the logits of the next symbols, applies the constraints, and leaves the
choice to a `Stepper`: `Beam` keeps the best, `Sampler` draws. The K hypotheses of a sentence lie
side by side, so that the decoder sees N = B·K rows. Finished hypotheses are gathered in a pool of K
for each sentence. Live hypotheses have the score log P, those in the pool log P / |y|^alpha. P is
normalised over the symbols that the constraints allow. EOS counts in P but not in |y|; an empty y
counts as one symbol.
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

from mtkit.models.interfaces import State, TranslationModel, select
from mtkit.symbols import BOS, PAD
from mtkit.terms import SourceIds

NEG_INF = float("-inf")


@dataclass(frozen=True)
class Hypotheses:
    """K translations of each sentence."""

    tokens: Int[Tensor, "B K T"]
    """Symbols without EOS, padded with PAD."""
    lengths: Int[Tensor, "B K"]
    """Number of symbols of each."""
    scores: Float[Tensor, "B K"]
    """log P / |y|^alpha; -inf for missing hypotheses."""
    finished: Bool[Tensor, "B K"]
    """Whether it ends in EOS; otherwise it was cut at `max_length`."""

    @classmethod
    def none(cls, source: SourceIds, count: int) -> Hypotheses:
        """Return an empty pool for `count` hypotheses of each sentence."""
        lengths = source.new_zeros(len(source), count)
        scores = torch.full(lengths.shape, NEG_INF, device=source.device)
        return cls(lengths.new_zeros(*lengths.shape, 0), lengths, scores, lengths.bool())


@dataclass(frozen=True)
class Live:
    """K growing hypotheses of each sentence that is still searched."""

    sentences: Int[Tensor, " B"]
    """Row in the source of each sentence that is still searched."""
    tokens: Int[Tensor, "B K T"]
    """Symbols from BOS on; all hypotheses are of one length."""
    scores: Float[Tensor, "B K"]
    """log P."""
    parents: Int[Tensor, "B K"]
    """Row of the decoder's N from which each hypothesis grew in the last step."""

    @classmethod
    def begin(cls, source: SourceIds, count: int) -> Live:
        """Return `count` hypotheses of each sentence that consist of BOS."""
        sentences = torch.arange(len(source), device=source.device)
        tokens = source.new_full((len(source), count, 1), BOS)
        scores = torch.zeros(len(source), count, device=source.device)
        return cls(sentences, tokens, scores, torch.zeros_like(tokens[:, :, 0]))

    @property
    def written(self) -> Int[Tensor, "N T"]:
        """The symbols so far, without BOS; a row for each hypothesis."""
        return self.tokens.flatten(0, 1)[:, 1:]

    @property
    def rows(self) -> Int[Tensor, " N"]:
        """The sentence of each hypothesis."""
        return self.sentences.repeat_interleave(self.tokens.shape[1])


Constraint = Callable[[Float[Tensor, "N V"], Live], Float[Tensor, "N V"]]
"""Changes the logits of the next symbol, -inf for forbidden ones; may do so in place.

It sees all symbols so far, so that it needs no state that would have to be reordered.
"""


class Stepper(ABC):
    """A way to extend hypotheses."""

    @abstractmethod
    def begin(self, source: SourceIds) -> tuple[Live, Hypotheses]:
        """Return hypotheses without symbols, and the empty pool."""

    @abstractmethod
    def grow(
        self, live: Live, pool: Hypotheses, log_probs: Float[Tensor, "N V"], *, is_last: bool
    ) -> tuple[Live, Hypotheses]:
        """Return both after one more symbol; `is_last` if it reaches `max_length`."""

    @abstractmethod
    def is_done(self, pool: Hypotheses) -> Bool[Tensor, " B"]:
        """Return which sentences are complete."""


@torch.inference_mode()
def search(
    model: TranslationModel[Any, Any],
    source: SourceIds,
    stepper: Stepper,
    constraints: Sequence[Constraint],
    max_length: int,
) -> Hypotheses:
    """Return K translations of each sentence; `model` must be in evaluation mode."""
    memory = model.encode(source, source != PAD)  # once per sentence
    live, pool = stepper.begin(source)
    state = model.start(memory, live.tokens.shape[1])
    left_batch = []
    for length in range(max_length):
        # The decoder reads the last symbol of each hypothesis.
        decoded = model.decode(memory, state, live.tokens[:, :, -1].reshape(-1, 1))  # (N, 1, D)
        logits = model.project(decoded.hidden[:, -1]).float()  # (N, V)
        for constrain in constraints:
            logits = constrain(logits, live)
        # In place: to allocate N·V numbers more would take longer than the softmax itself.
        log_probs = torch.log_softmax(logits, dim=-1, out=logits)
        live, pool = stepper.grow(live, pool, log_probs, is_last=length + 1 == max_length)
        done = stepper.is_done(pool)
        ongoing = (~done).nonzero().squeeze(1)
        if len(ongoing) < len(done):  # sentences that are done leave the batch
            left_batch.append(select((live.sentences, pool), done.nonzero().squeeze(1)))
            memory, live, pool = select((memory, live, pool), ongoing)
        if not len(ongoing):
            break
        state = _select_parents(decoded.state, live.parents.flatten(), len(log_probs))
    return _restore_order([*left_batch, (live.sentences, pool)])


def _select_parents(state: State, parents: Int[Tensor, " M"], count: int) -> State:
    """Return the state of each hypothesis' parent, without a copy if all stay in their rows."""
    if torch.equal(parents, torch.arange(count, device=parents.device)):
        return state
    return select(state, parents)


def _restore_order(parts: list[tuple[Tensor, Hypotheses]]) -> Hypotheses:
    """Restore the order of sentences that left the batch at different steps."""
    width = max(part.tokens.shape[2] for _, part in parts)
    order = torch.cat([sentences for sentences, _ in parts]).argsort()
    whole = Hypotheses(
        torch.cat([F.pad(part.tokens, (0, width - part.tokens.shape[2])) for _, part in parts]),
        torch.cat([part.lengths for _, part in parts]),
        torch.cat([part.scores for _, part in parts]),
        torch.cat([part.finished for _, part in parts]),
    )
    return select(whole, order)
