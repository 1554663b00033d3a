"""How much each word of a source sentence matters for each word of its translation.

Words are taken out of the sentence (Li et al. 2016): neither the encoder nor attention sees them,
and what follows moves up. That is the same deed to every architecture, and it leaves the model a
sentence such as it may have been trained on, which an unseen symbol in their place would not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from mtkit.decoding.alignment.words import merge
from mtkit.decoding.forced import attention_to_source, shifted
from mtkit.models.base import TranslationModel
from mtkit.terms import SourceIds
from mtkit.tokenizer.symbols import EOS, PAD

BATCH_TOKENS = 2048
"""Padded tokens, of the longer side, that go through the model together."""


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation, as subwords (S and T) of words (I and J)."""

    source: Int[Tensor, " S"]
    target: Int[Tensor, " T"]
    source_words: Int[Tensor, " S"]
    """Number of the word that each source subword belongs to, from 0 without gaps."""
    target_words: Int[Tensor, " T"]
    """Number of the word that each target subword belongs to, from 0 without gaps."""

    @property
    def size(self) -> tuple[int, int]:
        """Number of words of source and target, I and J."""
        return int(self.source_words.max()) + 1, int(self.target_words.max()) + 1

    @property
    def rows(self) -> int:
        """How often it fits into BATCH_TOKENS."""
        return max(1, BATCH_TOKENS // (1 + max(len(self.source), len(self.target))))

    def everything(self, rows: int) -> Bool[Tensor, "R I"]:
        """Every source word kept, in so many rows."""
        return torch.ones(rows, self.size[0], dtype=torch.bool, device=self.source.device)

    def sources(self, kept: Bool[Tensor, "R I"]) -> SourceIds:
        """The source with the words that each row keeps, and EOS."""
        rows = [self.source[row] for row in kept[:, self.source_words]]
        ended = [F.pad(row, (0, 1), value=EOS) for row in rows]
        return pad_sequence(ended, batch_first=True, padding_value=PAD)


def attention(model: TranslationModel, pair: Pair) -> Float[Tensor, "J I"]:
    """As it is read for alignments; UserError for a model that has none."""
    source = pair.sources(pair.everything(1))
    weights = attention_to_source(model, source, pair.target.unsqueeze(0))[0, :, :-1]
    words = (side.tolist() for side in (pair.target_words, pair.source_words))
    return torch.from_numpy(merge(weights.cpu().numpy(), *words)).to(weights)


@torch.no_grad()
def log_probs(
    model: TranslationModel, pair: Pair, kept: Bool[Tensor, "R I"]
) -> Float[Tensor, "R J"]:
    """log P of every target word, each row with the source words that it keeps."""
    choices, choice = kept.unique(dim=0, return_inverse=True)  # equal rows share the work
    found = [_log_probs(model, pair.sources(rows), pair) for rows in choices.split(pair.rows)]
    return torch.cat(found)[choice]


def leave_one_out(model: TranslationModel, pair: Pair) -> Float[Tensor, "J I"]:
    """How far log P of target word j falls when source word i is taken out."""
    source_words = pair.size[0]
    kept = pair.everything(source_words + 1).fill_diagonal_(False)
    found = log_probs(model, pair, kept)  # (I + 1, J), the last row with every word
    return (found[-1] - found[:-1]).T


def gradient_times_input(model: TranslationModel, pair: Pair) -> Float[Tensor, "J I"]:
    """The derivative of log P of target word j along the embedding of source word i.

    Summed over the word's subwords (Denil et al. 2014; Shrikumar et al. 2016).
    """
    embedded: list[Tensor] = []

    def watch(module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
        if embedded:  # where embeddings are tied, the target comes next
            return None
        embedded.append(output.detach().requires_grad_())
        return embedded[0]

    # cuDNN's LSTM has a backward pass in training mode alone.
    with (
        model.source_embedding.register_forward_hook(watch),
        torch.backends.cudnn.flags(enabled=False),
    ):
        words = _log_probs(model, pair.sources(pair.everything(1)), pair)[0]  # (J,)
    slopes = [torch.autograd.grad(word, embedded, retain_graph=True)[0] for word in words]
    along = (torch.cat(slopes) * embedded[0].detach()).sum(dim=-1)[:, :-1]  # (J, S)
    return along.new_zeros(pair.size[::-1]).index_add(1, pair.source_words, along)


def fall_without_best(
    model: TranslationModel, pair: Pair, scores: Float[Tensor, "M J I"], counts: Sequence[int]
) -> tuple[Float[Tensor, "M J K"], Float[Tensor, "M J K"]]:
    """How far log P and P of each target word fall without the source words it scores highest.

    For M ways of scoring, and K counts of words that are taken out.
    """
    ways, words, _ = scores.shape
    best = scores.argsort(dim=-1, descending=True)
    kept = [torch.ones_like(best, dtype=torch.bool).scatter(-1, best[..., :n], 0) for n in counts]
    rows = torch.cat([torch.stack(kept).flatten(0, 2), pair.everything(1)])
    found = log_probs(model, pair, rows)
    without = found[:-1].view(len(counts), ways, words, words).diagonal(dim1=-2, dim2=-1)
    whole, own = found[-1].unsqueeze(-1), without.permute(1, 2, 0)  # (J, 1), (M, J, K)
    return whole - own, whole.exp() - own.exp()


def _log_probs(model: TranslationModel, source: SourceIds, pair: Pair) -> Float[Tensor, "R J"]:
    """log P of every target word, the sum over its subwords; of each row of `source`."""
    target = pair.target.expand(len(source), -1)
    logits = model.project(model(source, source != PAD, shifted(target)))  # (R, T, V)
    of_subwords = -F.cross_entropy(logits.transpose(1, 2), target, reduction="none")  # (R, T)
    by_word = of_subwords.new_zeros(len(source), pair.size[1])
    return by_word.index_add(1, pair.target_words, of_subwords)
