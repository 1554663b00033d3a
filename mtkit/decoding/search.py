"""The search for translations: one loop for every way of choosing, whatever the model.

A step asks the model what may follow each hypothesis, lets every constraint have its say, and
leaves the choice to a `Stepper`: `Beam` keeps the best, `Sampler` draws. Hypotheses of a sentence
lie side by side, K of them, so that the decoder sees N = B·K rows; what leaves the search is
gathered in a pool of K for each sentence. Scores of live hypotheses are log P, a plain sum; those
in the pool are log P / |y|^alpha, which compares short ones with long ones. P is among the symbols
that the constraints leave. The end counts in P but not in |y|; an empty y counts as one symbol.
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

NEVER = float("-inf")


@dataclass(frozen=True)
class Hypotheses:
    """K translations of each sentence."""

    tokens: Int[Tensor, "B K T"]
    """Symbols without EOS, padded with PAD."""
    lengths: Int[Tensor, "B K"]
    """Number of symbols of each."""
    scores: Float[Tensor, "B K"]
    """log P / |y|^alpha; -inf where a sentence has fewer than K hypotheses."""
    finished: Bool[Tensor, "B K"]
    """Whether it ended in EOS, rather than at `max_length`."""

    @classmethod
    def none(cls, source: SourceIds, count: int) -> Hypotheses:
        """Room for `count` hypotheses of each sentence."""
        lengths = source.new_zeros(len(source), count)
        scores = torch.full(lengths.shape, NEVER, device=source.device)
        return cls(lengths.new_zeros(*lengths.shape, 0), lengths, scores, lengths.bool())


@dataclass(frozen=True)
class Live:
    """K hypotheses that grow, of each sentence that is still searched."""

    sentences: Int[Tensor, " B"]
    """Which sentences of the batch are still searched, by their row in the source."""
    tokens: Int[Tensor, "B K T"]
    """Symbols from BOS on; all hypotheses are of one length."""
    scores: Float[Tensor, "B K"]
    """log P."""
    parents: Int[Tensor, "B K"]
    """Which row of the decoder's N each hypothesis grew from in the last step."""

    @classmethod
    def begin(cls, source: SourceIds, count: int) -> Live:
        """`count` hypotheses of each sentence that hold nothing but BOS."""
        sentences = torch.arange(len(source), device=source.device)
        tokens = source.new_full((len(source), count, 1), BOS)
        scores = torch.zeros(len(source), count, device=source.device)
        return cls(sentences, tokens, scores, torch.zeros_like(tokens[:, :, 0]))

    @property
    def written(self) -> Int[Tensor, "N T"]:
        """The symbols so far, without BOS, a row for each hypothesis."""
        return self.tokens.flatten(0, 1)[:, 1:]

    @property
    def rows(self) -> Int[Tensor, " N"]:
        """The sentence of each hypothesis."""
        return self.sentences.repeat_interleave(self.tokens.shape[1])


Constraint = Callable[[Float[Tensor, "N V"], Live], Float[Tensor, "N V"]]
"""Changes the logits of what follows each hypothesis, -inf for what may not; may overwrite them.

It sees all that has been written, and so needs no state of its own that would have to be reordered.
"""


class Stepper(ABC):
    """How hypotheses go on."""

    @abstractmethod
    def begin(self, source: SourceIds) -> tuple[Live, Hypotheses]:
        """Hypotheses of nothing yet, and the empty pool."""

    @abstractmethod
    def grow(
        self, live: Live, pool: Hypotheses, log_probs: Float[Tensor, "N V"], *, is_last: bool
    ) -> tuple[Live, Hypotheses]:
        """Both after one more symbol, the last there is room for where it `is_last`."""

    @abstractmethod
    def is_done(self, pool: Hypotheses) -> Bool[Tensor, " B"]:
        """Of which sentences nothing more is wanted."""


@torch.inference_mode()
def search(
    model: TranslationModel[Any, Any],
    source: SourceIds,
    stepper: Stepper,
    constraints: Sequence[Constraint],
    max_length: int,
) -> Hypotheses:
    """Translations of each sentence by `model`, which must be in evaluation mode."""
    memory = model.encode(source, source != PAD)  # once per sentence, however many hypotheses
    live, pool = stepper.begin(source)
    state = model.start(memory, live.tokens.shape[1])
    left = []
    for length in range(max_length):
        # One step: the last symbol of each hypothesis in, what the decoder makes of it out.
        decoded = model.decode(memory, state, live.tokens[:, :, -1].reshape(-1, 1))  # (N, 1, D)
        logits = model.project(decoded.hidden[:, -1]).float()  # (N, V)
        for constrain in constraints:
            logits = constrain(logits, live)
        # In place: a second block of N·V numbers would cost more than the softmax itself.
        log_probs = torch.log_softmax(logits, dim=-1, out=logits)
        live, pool = stepper.grow(live, pool, log_probs, is_last=length + 1 == max_length)
        done = stepper.is_done(pool)
        ongoing = (~done).nonzero().squeeze(1)
        if len(ongoing) < len(done):  # sentences that are done leave: no more work on them
            left.append(select((live.sentences, pool), done.nonzero().squeeze(1)))
            memory, live, pool = select((memory, live, pool), ongoing)
        if not len(ongoing):
            break
        state = _follow(decoded.state, live.parents.flatten(), len(log_probs))
    return _in_order([*left, (live.sentences, pool)])


def _follow(state: State, parents: Int[Tensor, " M"], count: int) -> State:
    """The state of each hypothesis' parent among `count`; no copy where all stay in their rows."""
    if torch.equal(parents, torch.arange(count, device=parents.device)):
        return state
    return select(state, parents)


def _in_order(parts: list[tuple[Tensor, Hypotheses]]) -> Hypotheses:
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
