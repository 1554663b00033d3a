"""Beam search as a tree: at each step, the hypotheses that lived, ended or were dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mtkit.decoding.reading import Reader
from mtkit.decoding.search.beam import Beam, best_sums
from mtkit.decoding.search.constraints import constraints_of
from mtkit.decoding.search.search import NEG_INF, Hypotheses, Live, Stepper, search
from mtkit.symbols import EOS
from mtkit.terms import SourceIds

Fate = Literal["live", "ended", "dropped"]
"""Live: extended in the next step. Ended: added to the finished hypotheses."""


@dataclass(frozen=True)
class TreeNode:
    """A live hypothesis of the step before, with one more symbol."""

    tokens: tuple[int, ...]
    log_prob: float
    fate: Fate


@dataclass(frozen=True)
class Finished:
    """A hypothesis that a search returns."""

    tokens: tuple[int, ...]
    """Symbols without EOS."""
    score: float
    """log P / |y|^alpha."""


@dataclass(frozen=True)
class BeamTree:
    """The nodes of each step, and the finished hypotheses; each list has the best first."""

    steps: list[list[TreeNode]]
    finished: list[Finished]
    beam: int
    alpha: float
    """The length penalty: scores of finished hypotheses are log P / |y|^alpha."""

    def is_of_winner(self, node: TreeNode) -> bool:
        """Return whether the best hypothesis begins with, or is, this node."""
        winner = (*self.finished[0].tokens, EOS)
        return winner[: len(node.tokens)] == node.tokens


def search_tree(reader: Reader, source_ids: Sequence[int]) -> BeamTree:
    """Search for the translation of a sentence (ids without EOS) and record every step."""
    settings = reader.settings
    recorder = _Recorder(Beam(settings.beam, settings.length_penalty))
    source = torch.tensor([[*source_ids, EOS]], device=reader.model.device)
    found = search(reader.model, source, recorder, constraints_of(settings), settings.max_length)
    *steps, last = recorder.steps
    # No step extends what is live at the end.
    steps.append([replace(it, fate="dropped") if it.fate == "live" else it for it in last])
    return BeamTree(steps, _finished(found), settings.beam, settings.length_penalty)


@dataclass(frozen=True)
class _Recorder(Stepper):
    """Beam search for one sentence that records the nodes of each step."""

    beam: Beam
    steps: list[list[TreeNode]] = field(default_factory=list)

    def begin(self, source: SourceIds) -> tuple[Live, Hypotheses]:
        return self.beam.begin(source)

    def grow(
        self, live: Live, pool: Hypotheses, log_probs: Float[Tensor, "N V"], *, is_last: bool
    ) -> tuple[Live, Hypotheses]:
        sums, flat = best_sums(live.scores, log_probs.unsqueeze(0), 2 * self.beam.width)
        written, vocabulary = live.written.tolist(), log_probs.shape[1]
        grown, pool = self.beam.grow(live, pool, log_probs, is_last=is_last)
        is_live = {*map(tuple, grown.written.tolist())}
        is_finished = {hypothesis.tokens for hypothesis in _finished(pool)}
        step = []
        for total, index in zip(sums[0].tolist(), flat[0].tolist(), strict=True):
            if total == NEG_INF:  # a constraint forbids the symbol
                continue
            hypothesis, symbol = divmod(index, vocabulary)
            tokens = (*written[hypothesis], symbol)
            text = tokens[:-1] if symbol == EOS else tokens
            is_ended = text in is_finished and (symbol == EOS or is_last)
            fate: Fate = "ended" if is_ended else "live" if tokens in is_live else "dropped"
            step.append(TreeNode(tokens, total, fate))
        self.steps.append(step)
        return grown, pool

    def is_done(self, pool: Hypotheses) -> Bool[Tensor, " B"]:
        return self.beam.is_done(pool)


def _finished(pool: Hypotheses) -> list[Finished]:
    """Return the hypotheses of the only sentence, without empty places."""
    columns = (column[0].tolist() for column in (pool.tokens, pool.lengths, pool.scores))
    rows = zip(*columns, strict=True)
    return [Finished(tuple(ids[:length]), score) for ids, length, score in rows if score > NEG_INF]
