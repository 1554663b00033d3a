"""How much each word of a source sentence matters for each word of its translation.

Words are taken out of the sentence (Li et al. 2016): neither the encoder nor attention sees them,
and what follows moves up. That is the same deed to every architecture, and it leaves the model a
sentence such as it may have been trained on, which an unseen symbol in their place would not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mtkit.decoding.alignment.words import merge
from mtkit.decoding.forced import attention_to_source
from mtkit.models.base import TranslationModel
from mtkit.tokenizer.symbols import BOS, EOS, PAD

TOKENS = 4096
"""Padded tokens, of the longer side, that go through the model together."""


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation, as subwords (S and T) of words (I and J)."""

    source: Int[Tensor, " S"]
    target: Int[Tensor, " T"]
    source_words: Int[Tensor, " S"]
    """The word that each subword belongs to, counted from 0 without gaps."""
    target_words: Int[Tensor, " T"]

    @classmethod
    def of(
        cls,
        source: Sequence[int],
        target: Sequence[int],
        source_words: Sequence[int],
        target_words: Sequence[int],
        device: torch.device,
    ) -> Pair:
        """From subword ids without BOS and EOS, and their words, of which some may be missing."""
        ids = [torch.tensor(ids, device=device) for ids in (source, target)]
        words = [torch.tensor(of_side, device=device) for of_side in (source_words, target_words)]
        return cls(*ids, *(of_side.unique(return_inverse=True)[1] for of_side in words))

    @property
    def size(self) -> tuple[int, int]:
        """Words of source and target."""
        return int(self.source_words.max()) + 1, int(self.target_words.max()) + 1

    @property
    def rows(self) -> int:
        """How often it fits into TOKENS."""
        return max(1, TOKENS // (1 + max(len(self.source), len(self.target))))


def attention(model: TranslationModel, pair: Pair) -> Float[Tensor, "J I"]:
    """As it is read for alignments; UserError for a model that has none."""
    source = _with_end(pair.source.unsqueeze(0))
    weights = attention_to_source(model, source, pair.target.unsqueeze(0))[0, :, :-1]
    words = (side.tolist() for side in (pair.target_words, pair.source_words))
    return torch.from_numpy(merge(weights.cpu().numpy(), *words)).to(weights)


@torch.no_grad()
def log_probs(
    model: TranslationModel, pair: Pair, kept: Bool[Tensor, "R I"], asked: Bool[Tensor, "R J"]
) -> Float[Tensor, "R J"]:
    """log P of the target words asked for, each row with the source words that it keeps."""
    choices, choice = kept.unique(dim=0, return_inverse=True)
    counts = torch.zeros(len(choices), asked.shape[1], dtype=torch.long, device=kept.device)
    wanted = counts.index_add(0, choice, asked.long()) > 0
    found = [
        _log_probs(model, _kept(pair.source, rows[:, pair.source_words]), pair, words)
        for rows, words in zip(choices.split(pair.rows), wanted.split(pair.rows), strict=True)
    ]
    return torch.cat(found)[choice]


def leave_one_out(model: TranslationModel, pair: Pair) -> Float[Tensor, "J I"]:
    """How far log P of target word j falls when source word i is taken out."""
    source_words, target_words = pair.size
    kept = ~torch.eye(source_words + 1, source_words, dtype=torch.bool, device=pair.source.device)
    without = log_probs(model, pair, kept, kept.new_ones(len(kept), target_words))
    return (without[-1] - without[:-1]).T


def gradient_times_input(model: TranslationModel, pair: Pair) -> Float[Tensor, "J I"]:
    """The derivative of log P of target word j along the embedding of source word i.

    Summed over the word's subwords (Denil et al. 2014; Shrikumar et al. 2016).
    """
    found = []
    for words in torch.arange(pair.size[1], device=pair.source.device).split(pair.rows):
        source = _with_end(pair.source.expand(len(words), -1))
        # cuDNN's LSTM has a backward pass in training mode alone.
        with (
            _watched(model.source_embedding) as embedded,
            torch.backends.cudnn.flags(enabled=False),
        ):
            own = F.one_hot(words, pair.size[1]).bool()
            (gradient,) = torch.autograd.grad(_log_probs(model, source, pair, own).sum(), embedded)
        along = (gradient * embedded[0]).sum(dim=-1)[:, :-1]
        by_word = along.new_zeros(len(words), pair.size[0])
        found.append(by_word.index_add(1, pair.source_words, along).detach())
    return torch.cat(found)


def fall_without_best(
    model: TranslationModel, pair: Pair, scores: Float[Tensor, "M J I"], counts: Sequence[int]
) -> tuple[Float[Tensor, "M J K"], Float[Tensor, "M J K"]]:
    """How far log P and P of each target word fall without the source words it scores highest.

    For M ways of scoring, and K counts of words that are taken out.
    """
    ways, words, _ = scores.shape
    best = scores.argsort(dim=-1, descending=True)
    taken = [
        torch.zeros_like(best, dtype=torch.bool).scatter(-1, best[..., :n], True) for n in counts
    ]
    kept = torch.cat([~torch.stack(taken).flatten(0, 2), torch.ones_like(taken[0][0, :1])])
    own_word = torch.eye(words, dtype=torch.bool, device=scores.device)
    asked = torch.cat([own_word.repeat(len(counts) * ways, 1), own_word.any(0, keepdim=True)])
    found = log_probs(model, pair, kept, asked)
    whole, without = found[-1], found[:-1].view(len(counts), ways, words, words)
    own = without.diagonal(dim1=-2, dim2=-1).permute(1, 2, 0)  # (M, J, K)
    whole = whole.unsqueeze(-1)
    return whole - own, whole.exp() - own.exp()


def _log_probs(
    model: TranslationModel, source: Int[Tensor, "R S"], pair: Pair, asked: Bool[Tensor, "R J"]
) -> Float[Tensor, "R J"]:
    """Of the words asked for, and 0 of the others, whose logits are never computed."""
    target = pair.target.expand(len(source), -1)
    read = F.pad(target[:, :-1], (1, 0), value=BOS)
    here = asked[:, pair.target_words]  # (R, T)
    logits = model.project(model(source, source != PAD, read)[here])
    costs = F.cross_entropy(logits, target[here], reduction="none")
    of_subwords = costs.new_zeros(here.shape).masked_scatter(here, -costs)
    by_word = costs.new_zeros(asked.shape)
    return by_word.index_add(1, pair.target_words, of_subwords)


def _kept(source: Int[Tensor, " S"], kept: Bool[Tensor, "R S"]) -> Int[Tensor, "R S2"]:
    """The subwords that are kept, each row moved to the left, and EOS."""
    order = (~kept).long().argsort(dim=1, stable=True)
    lengths = kept.sum(dim=1, keepdim=True)
    position = torch.arange(len(source) + 1, device=source.device)
    moved = F.pad(source[order], (0, 1), value=PAD)
    moved = moved.masked_fill(position > lengths, PAD).masked_fill(position == lengths, EOS)
    return moved[:, : int(lengths.max()) + 1]


def _with_end(source: Int[Tensor, "R S"]) -> Int[Tensor, "R S1"]:
    return F.pad(source, (0, 1), value=EOS)


@contextmanager
def _watched(embedding: nn.Embedding) -> Iterator[list[Tensor]]:
    """Collects what the source is embedded as, where its gradient can be taken."""
    seen: list[Tensor] = []

    def watch(module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
        if seen:  # where embeddings are tied, the target comes next
            return None
        seen.append(output.detach().requires_grad_())
        return seen[0]

    handle = embedding.register_forward_hook(watch)
    try:
        yield seen
    finally:
        handle.remove()
