"""Faithfulness: whether attention tells which source words an output word hangs on.

Attention is held against two measures of importance that are about the output itself: how far
log P of the word falls when a source word is taken out (leave one out), and gradient × input. The
question is that of Jain and Wallace 2019, and what taking out the most attended words does that of
Serrano and Smith 2019; Wiegreffe and Pinter 2019 say what such measurements cannot decide. Here the
output is a word of the translation, forced, and not the class of a text.

Words are taken out of the sentence (Li et al. 2016): neither the encoder nor attention sees them,
and what follows moves up. That is the same deed to every architecture, and it leaves the model a
sentence such as it may have been trained on, which an unseen symbol in their place would not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from mtkit.decoding.alignment import merge
from mtkit.decoding.forced import attention_to_source, shift_right
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.symbols import EOS, PAD
from mtkit.terms import SourceIds

ATTENTION, GRADIENT, LEFT_OUT, RANDOM = "attention", "gradient × input", "leave one out", "random"
RANKINGS = (LEFT_OUT, GRADIENT, ATTENTION, RANDOM)
"""What chooses the words that are taken out."""
COMPARED = ((ATTENTION, LEFT_OUT), (ATTENTION, GRADIENT), (GRADIENT, LEFT_OUT), (RANDOM, LEFT_OUT))
"""What is correlated; the third says how far the two measures of importance agree themselves."""
TAKEN_OUT = (1, 2, 3)
"""Numbers of words that are taken out."""
SEED = 1
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

    def everything(self, rows: int) -> Bool[Tensor, "R I"]:
        """Every source word kept, in so many rows."""
        return torch.ones(rows, self.size[0], dtype=torch.bool, device=self.source.device)

    def sources(self, kept: Bool[Tensor, "R I"]) -> SourceIds:
        """The source with the words that each row keeps, and EOS."""
        rows = kept[:, self.source_words]
        ended = [F.pad(self.source[row], (0, 1), value=EOS) for row in rows]
        return pad_sequence(ended, batch_first=True, padding_value=PAD)


@dataclass(frozen=True)
class Faithfulness:
    """What was measured of N sentences, each the mean over its output words."""

    log_prob_falls: Float[Tensor, "N 4 3"]
    """Falls of log P in nats, by ranking, and by how many words are taken out."""
    prob_falls: Float[Tensor, "N 4 3"]
    """Falls of P, by ranking, and by how many words are taken out."""
    kendall: Float[Tensor, "N 4"]
    """Kendall's τ-b over the source words, by pair of COMPARED."""
    spearman: Float[Tensor, "N 4"]
    """Spearman's ρ over the source words, by pair of COMPARED."""

    def record(self) -> dict[str, Any]:
        """What is written as JSON, and shown as a table: means, by what each is of."""
        record: dict[str, Any] = {"sentences": len(self.kendall), "words_taken_out": TAKEN_OUT}
        pairs = [" and ".join(pair) for pair in COMPARED]
        for name, values in vars(self).items():
            rows = RANKINGS if values.ndim == 3 else pairs
            record[name] = dict(zip(rows, _estimates(values), strict=True))
        return record


def measure(
    model: EncoderDecoder, pairs: Iterable[Pair], advance: Callable[[], None]
) -> Faithfulness:
    """`advance` is called after each sentence. Each must have more words than are taken out."""
    generator = torch.Generator().manual_seed(SEED)
    found = []
    for pair in pairs:
        attended = attention(model, pair)
        chance = torch.rand(attended.shape, generator=generator).to(attended)
        importance = {
            LEFT_OUT: leave_one_out(model, pair),
            GRADIENT: gradient_times_input(model, pair),
            ATTENTION: attended,
            RANDOM: chance,
        }
        scores = torch.stack([importance[name] for name in RANKINGS])
        falls = fall_without_best(model, pair, scores, TAKEN_OUT)
        sides = ([RANKINGS.index(name) for name in names] for names in zip(*COMPARED, strict=True))
        left, right = (scores[side] for side in sides)
        correlations = kendall(left, right), spearman(left, right)
        found.append([x.mean(dim=1) for x in falls] + [x.nanmean(dim=1) for x in correlations])
        advance()
    return Faithfulness(*(torch.stack(column).cpu() for column in zip(*found, strict=True)))


def _estimates(values: Float[Tensor, "N ..."]) -> Any:
    """Means over sentences, but for NaN, and half of their intervals of 95 %; None if unknown.

    Lists of them, one in the other, where there are several of each sentence.
    """
    if values.ndim > 1:
        return [_estimates(column) for column in values.unbind(dim=1)]
    counted = values[~values.isnan()].double()
    half = 1.96 * counted.std().item() / len(counted) ** 0.5 if len(counted) > 1 else None
    return {"mean": counted.mean().item() if len(counted) else None, "plus_minus": half}


def kendall(a: Float[Tensor, "*of I"], b: Float[Tensor, "*of I"]) -> Float[Tensor, "*of"]:
    """Kendall's τ-b of each pair of rows; NaN where all of a row are tied."""
    return _cosine(_order(a).flatten(-2), _order(b).flatten(-2))


def spearman(a: Float[Tensor, "*of I"], b: Float[Tensor, "*of I"]) -> Float[Tensor, "*of"]:
    """Spearman's ρ of each pair of rows, the tied at their mean rank; NaN where all are."""
    # How many are below less how many are above is twice the rank, from the middle.
    return _cosine(_order(a).sum(dim=-1), _order(b).sum(dim=-1))


def _order(x: Float[Tensor, "*of I"]) -> Float[Tensor, "*of I I"]:
    """1 where i is above j, -1 where it is below, 0 where they are tied."""
    return (x.unsqueeze(-1) - x.unsqueeze(-2)).sign()


def _cosine(a: Float[Tensor, "*of X"], b: Float[Tensor, "*of X"]) -> Float[Tensor, "*of"]:
    return (a * b).sum(dim=-1) / (a.square().sum(dim=-1) * b.square().sum(dim=-1)).sqrt()


def attention(model: EncoderDecoder, pair: Pair) -> Float[Tensor, "J I"]:
    """As it is read for alignments; UserError for a model that has none."""
    source = pair.sources(pair.everything(1))
    weights = attention_to_source(model, source, pair.target.unsqueeze(0))[0, :, :-1]
    words = (side.tolist() for side in (pair.target_words, pair.source_words))
    return torch.from_numpy(merge(weights.cpu().numpy(), *words)).to(weights)


@torch.no_grad()
def log_probs(model: EncoderDecoder, pair: Pair, kept: Bool[Tensor, "R I"]) -> Float[Tensor, "R J"]:
    """log P of every target word, each row with the source words that it keeps."""
    choices, choice = kept.unique(dim=0, return_inverse=True)  # equal rows share the work
    together = max(1, BATCH_TOKENS // (1 + max(len(pair.source), len(pair.target))))
    found = [_log_probs(model, pair.sources(rows), pair) for rows in choices.split(together)]
    return torch.cat(found)[choice]


def leave_one_out(model: EncoderDecoder, pair: Pair) -> Float[Tensor, "J I"]:
    """How far log P of target word j falls when source word i is taken out."""
    kept = pair.everything(pair.size[0] + 1).fill_diagonal_(False)
    found = log_probs(model, pair, kept)  # (I + 1, J), the last row with every word
    return (found[-1] - found[:-1]).T


def gradient_times_input(model: EncoderDecoder, pair: Pair) -> Float[Tensor, "J I"]:
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
    model: EncoderDecoder, pair: Pair, scores: Float[Tensor, "M J I"], counts: Sequence[int]
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


def _log_probs(model: EncoderDecoder, source: SourceIds, pair: Pair) -> Float[Tensor, "R J"]:
    """log P of every target word, the sum over its subwords; of each row of `source`."""
    target = pair.target.expand(len(source), -1)
    logits = model.project(model(source, source != PAD, shift_right(target)))  # (R, T, V)
    of_subwords = -F.cross_entropy(logits.transpose(1, 2), target, reduction="none")  # (R, T)
    by_word = of_subwords.new_zeros(len(source), pair.size[1])
    return by_word.index_add(1, pair.target_words, of_subwords)
