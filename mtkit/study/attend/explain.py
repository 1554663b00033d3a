"""`mtkit attend --explain`: whether attention shows which source words the output depends on.

The question is that of Jain and Wallace 2019; removing the most attended words follows Serrano and
Smith 2019. Wiegreffe and Pinter 2019 discuss what this cannot decide. Words are removed from the
sentence (Li et al. 2016), which treats all architectures alike; the translation is forced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from mtkit.decoding.alignment import merge
from mtkit.decoding.forced import attention_to_source, check_attention, shift_right
from mtkit.decoding.lines import input_lines
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.progress import progress
from mtkit.report import show, table, warn
from mtkit.study.attend.show import Reader, named_sentences
from mtkit.study.plots.picture import check_picture, draw_curves
from mtkit.symbols import EOS, PAD
from mtkit.terms import SourceIds

ATTENTION, GRADIENT, LEFT_OUT, RANDOM = "attention", "gradient × input", "leave one out", "random"
RANKINGS = (LEFT_OUT, GRADIENT, ATTENTION, RANDOM)
"""The rankings by which words are removed."""
COMPARED = ((ATTENTION, LEFT_OUT), (ATTENTION, GRADIENT), (GRADIENT, LEFT_OUT), (RANDOM, LEFT_OUT))
"""The rankings whose correlation is measured."""
REMOVED = (1, 2, 3)
"""Numbers of words that are removed."""
MIN_WORDS = max(REMOVED) + 1
"""Smallest number of words of a source sentence, so that one is left."""
SKIPPED = f"under {MIN_WORDS} words, too long, or several sentences"
"""Which lines are left out."""


def explain(
    model: str | None = None,
    text: str | None = None,
    references: Path | None = None,
    output: Path | None = None,
    *,
    as_json: bool = False,
    device: str = "auto",
) -> None:
    """Measure on `text`, or on every line of stdin, and write a table (or JSON).

    The translations to explain are the lines of `references`, else the model's own. `output` is a
    picture of the results.

    Raises:
        UserError: there is no such model, it has no attention, or there is nothing to explain.
    """
    if output is not None:
        check_picture(output)
    reader = Reader.load(model, device)
    check_attention(reader.model)
    sources = [sentence for _, sentence in named_sentences(text)]
    targets = [None] * len(sources) if references is None else list(input_lines(references))
    if len(targets) != len(sources):
        raise UserError(f"{references}: {len(targets)} lines for {len(sources)} sentences")
    rows = list(_measure(reader, sources, targets))
    if not rows:
        raise UserError(f"nothing to explain: every line is {SKIPPED}, or has no translation")
    if len(rows) < len(sources):
        warn(f"{len(sources) - len(rows)} of {len(sources)} lines left out: {SKIPPED}")
    record = _record(rows)
    show(record, _table, as_json=as_json)
    if output is not None:
        curves = {
            ranking: [(n, of["mean"]) for n, of in zip(REMOVED, falls, strict=True)]
            for ranking, falls in record["log_prob_falls"].items()
        }
        draw_curves([("fall of log P of an output word", "source words removed", curves)], output)


def _measure(
    reader: Reader, sources: Sequence[str], targets: Sequence[str | None]
) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    with progress("explain", len(sources), "sentences") as shown:
        for source, target in zip(sources, targets, strict=True):
            with suppress(UserError):  # a sentence that cannot be read is left out
                reading = reader.read(source, target)
                if len(reading.source.texts) >= MIN_WORDS and reading.target_ids:
                    words = (reading.source.of_subword, reading.target.of_subword)
                    pair = ForcedPair(reader.model, reading.source_ids, reading.target_ids, *words)
                    yield measure_faithfulness(pair, generator)
            shown.advance()


@dataclass(frozen=True)
class ForcedPair:
    """A sentence and a translation that is forced: subwords, and the number of each one's word."""

    model: EncoderDecoder
    source: Sequence[int]
    target: Sequence[int]
    source_words: Sequence[int]
    target_words: Sequence[int]

    def sources(self, removed: Sequence[AbstractSet[int]]) -> SourceIds:
        """Return the source without the words of each set, and EOS."""
        numbered = list(zip(self.source, self.source_words, strict=True))
        rows = [[*(s for s, word in numbered if word not in words), EOS] for words in removed]
        tensors = [torch.tensor(row, device=self.model.device) for row in rows]
        return pad_sequence(tensors, batch_first=True, padding_value=PAD)

    def log_probs(self, source: SourceIds) -> Float[Tensor, "R J"]:
        """Return log P of every target word, the sum over its subwords, for each source."""
        target = torch.tensor([self.target], device=source.device).expand(len(source), -1)
        hidden = self.model(source, source != PAD, shift_right(target))
        logits = self.model.project(hidden).transpose(1, 2)  # (R, V, T)
        return -_sum_words(F.cross_entropy(logits, target, reduction="none"), self.target_words)

    @torch.no_grad()
    def log_probs_without(self, removed: Sequence[AbstractSet[int]]) -> Float[Tensor, "R J"]:
        """Return log P of every target word without the source words of each set."""
        groups = (removed[start : start + 64] for start in range(0, len(removed), 64))
        return torch.cat([self.log_probs(self.sources(group)) for group in groups])

    def attention(self) -> Float[Tensor, "J I"]:
        """Return the attention that alignments are read from."""
        source = self.sources([set()])
        target = torch.tensor([self.target], device=source.device)
        weights = attention_to_source(self.model, source, target)[0, :, :-1]
        merged = merge(weights.cpu().numpy(), self.target_words, self.source_words)
        return torch.from_numpy(merged).to(weights)

    def gradient_times_input(self) -> Float[Tensor, "J I"]:
        """Return the derivative of log P of target word j along the embedding of source word i."""
        embedded: list[Tensor] = []

        def watch(module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
            if embedded:  # where embeddings are tied, the target comes next
                return None
            embedded.append(output.detach().requires_grad_())
            return embedded[0]

        # cuDNN's LSTM has a backward pass in training mode alone.
        hook = self.model.source_embedding.register_forward_hook(watch)
        with hook, torch.backends.cudnn.flags(enabled=False):
            words = self.log_probs(self.sources([set()]))[0]  # (J,)
        slopes = [torch.autograd.grad(word, embedded, retain_graph=True)[0] for word in words]
        along = (torch.cat(slopes) * embedded[0].detach()).sum(dim=-1)[:, :-1]  # (J, S)
        return _sum_words(along, self.source_words)


def _sum_words(values: Float[Tensor, "R T"], words: Sequence[int]) -> Float[Tensor, "R J"]:
    """Sum the values of the subwords of each word."""
    sums = values.new_zeros(len(values), max(words) + 1)
    return sums.index_add(1, torch.tensor(words, device=values.device), values)


def measure_faithfulness(
    pair: ForcedPair, generator: torch.Generator
) -> tuple[Float[Tensor, "M K"], Float[Tensor, " C"]]:
    """Return means over the output words.

    - How far log P falls, in nats, for M rankings and K numbers of removed words.
    - Kendall's τ over the source words of the C compared rankings; NaN where all are tied.
    """
    single = [{word} for word in range(max(pair.source_words) + 1)]
    whole, *without = pair.log_probs_without([set(), *single])
    left_out = (whole - torch.stack(without)).T  # (J, I)
    random = torch.rand(left_out.shape, generator=generator).to(left_out)
    scores = (left_out, pair.gradient_times_input(), pair.attention().to(left_out), random)
    best = torch.stack(scores).argsort(dim=-1, descending=True)  # (M, J, I)
    removed = [frozenset(of[:n]) for of in best.flatten(0, 1).tolist() for n in REMOVED]
    unique = list(dict.fromkeys(removed))
    log_probs = dict(zip(unique, pair.log_probs_without(unique), strict=True))
    rows = torch.stack([log_probs[words] for words in removed])
    own = rows.view(*best.shape[:2], len(REMOVED), len(whole)).diagonal(dim1=1, dim2=3)  # (M, K, J)
    left, right = (
        torch.stack([scores[RANKINGS.index(name)] for name in side])
        for side in zip(*COMPARED, strict=True)
    )
    return (whole - own).mean(dim=-1), kendall(left, right).nanmean(dim=-1)


def kendall(a: Float[Tensor, "*of I"], b: Float[Tensor, "*of I"]) -> Float[Tensor, "*of"]:
    """Return Kendall's τ-b of each pair of rows; NaN where all of a row are tied."""
    x, y = ((rows.unsqueeze(-1) - rows.unsqueeze(-2)).sign().flatten(-2) for rows in (a, b))
    return (x * y).sum(dim=-1) / (x.square().sum(dim=-1) * y.square().sum(dim=-1)).sqrt()


def _record(rows: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    falls, taus = (torch.stack(column) for column in zip(*rows, strict=True))  # (N, M, K), (N, C)
    by_ranking = zip(RANKINGS, falls.unbind(dim=1), strict=True)
    by_pair = zip(COMPARED, taus.unbind(dim=1), strict=True)
    return {
        "sentences": len(rows),
        "words_removed": REMOVED,
        "log_prob_falls": {name: list(map(_estimate, of.unbind(dim=1))) for name, of in by_ranking},
        "kendall": {" and ".join(pair): _estimate(of) for pair, of in by_pair},
    }


def _estimate(values: Float[Tensor, " N"]) -> dict[str, float | None]:
    """Return mean and half the 95 % confidence interval of what is not NaN; None if unknown."""
    counted = values[~values.isnan()].double()
    half = 1.96 * counted.std().item() / len(counted) ** 0.5 if len(counted) > 1 else None
    return {"mean": counted.mean().item() if len(counted) else None, "plus_minus": half}


def _table(record: dict[str, Any]) -> Iterator[str]:
    yield f"{record['sentences']:,} sentences; ± is half a 95 % confidence interval"
    yield ""
    yield "how far log P of an output word falls without source words"
    falls = [[name, *map(_cell, of)] for name, of in record["log_prob_falls"].items()]
    yield from table([["chosen by", *(f"without {count}" for count in REMOVED)], *falls])
    yield ""
    rows = [[pair, _cell(tau)] for pair, tau in record["kendall"].items()]
    yield from table([["rank correlation of source words", "Kendall's τ"], *rows])


def _cell(estimate: dict[str, float | None]) -> str:
    mean, half = estimate["mean"], estimate["plus_minus"]
    shown = "-" if mean is None else f"{mean:.3f}"
    return shown if half is None else f"{shown} ± {half:.3f}"
