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
from mtkit.shapes import SourceIds
from mtkit.symbols import EOS

Fate = Literal["live", "ended", "dropped"]
"""Live: extended in the next step. Ended: added to the finished hypotheses."""


@dataclass(frozen=True)
class TreeNode:
    """A live hypothesis of the step before, with one more symbol."""

    tokens: tuple[int, ...]
    """Symbols without BOS; the last symbol may be EOS."""
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
        """Return whether the best hypothesis begins with this node, or is this node."""
        winner = (*self.finished[0].tokens, EOS)
        return winner[: len(node.tokens)] == node.tokens


def search_tree(reader: Reader, source_ids: Sequence[int]) -> BeamTree:
    """Search for the translation of a sentence (ids without EOS) and record every step."""
    settings = reader.settings
    recorder = _Recorder(Beam(settings.beam, settings.length_penalty))
    source = torch.tensor([[*source_ids, EOS]], device=reader.model.device)
    hypotheses = search(
        reader.model, source, recorder, constraints_of(settings), settings.max_length
    )
    # No step follows the last one, so nodes that are live there count as dropped.
    last_step = recorder.steps[-1]
    for place, node in enumerate(last_step):
        if node.fate == "live":
            last_step[place] = replace(node, fate="dropped")
    return BeamTree(
        steps=recorder.steps,
        finished=_finished(hypotheses),
        beam=settings.beam,
        alpha=settings.length_penalty,
    )


@dataclass(frozen=True)
class _Recorder(Stepper):
    """Beam search for one sentence that records the nodes of each step.

    `beam` searches. The recorder computes the same candidates a second time, and sees in the
    results of `beam` what became of each candidate.
    """

    beam: Beam
    steps: list[list[TreeNode]] = field(default_factory=list)

    def begin(self, source: SourceIds) -> tuple[Live, Hypotheses]:
        return self.beam.begin(source)

    def grow(
        self, live: Live, pool: Hypotheses, log_probs: Float[Tensor, "N V"], *, is_last: bool
    ) -> tuple[Live, Hypotheses]:
        sums, candidates = best_sums(live.scores, log_probs.unsqueeze(0), 2 * self.beam.width)
        vocabulary = log_probs.shape[1]
        written = live.written.tolist()
        grown, pool = self.beam.grow(live, pool, log_probs, is_last=is_last)
        live_tokens = {tuple(tokens) for tokens in grown.written.tolist()}
        finished_tokens = {hypothesis.tokens for hypothesis in _finished(pool)}
        nodes: list[TreeNode] = []
        for log_prob, candidate in zip(sums[0].tolist(), candidates[0].tolist(), strict=True):
            if log_prob == NEG_INF:  # a constraint forbids the symbol
                continue
            # Candidates are numbered hypothesis · V + symbol.
            hypothesis, symbol = divmod(candidate, vocabulary)
            tokens = (*written[hypothesis], symbol)
            text = tokens[:-1] if symbol == EOS else tokens
            fate: Fate = "dropped"
            if tokens in live_tokens:
                fate = "live"
            # At the last step, hypotheses enter the pool without EOS, too.
            if text in finished_tokens and (symbol == EOS or is_last):
                fate = "ended"
            nodes.append(TreeNode(tokens, log_prob, fate))
        self.steps.append(nodes)
        return grown, pool

    def is_done(self, live: Live, pool: Hypotheses) -> Bool[Tensor, " B"]:
        return self.beam.is_done(live, pool)


def _finished(pool: Hypotheses) -> list[Finished]:
    """Return the hypotheses of the only sentence, without empty places."""
    tokens = pool.tokens[0].tolist()
    lengths = pool.lengths[0].tolist()
    scores = pool.scores[0].tolist()
    finished: list[Finished] = []
    for ids, length, score in zip(tokens, lengths, scores, strict=True):
        if score > NEG_INF:
            finished.append(Finished(tuple(ids[:length]), score))
    return finished
