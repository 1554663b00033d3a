"""`mtkit attend --explain`: whether attention shows which source words the output depends on.

Jain and Wallace 2019 ask this question; removing the most attended words follows Serrano and Smith
2019. Wiegreffe and Pinter 2019 discuss what this method cannot decide. Words are removed from the
sentence (Li et al. 2016), which works for all architectures; the translation is fixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.corpus.files import input_lines
from mtkit.decoding.alignment import merge
from mtkit.decoding.reading import Reader, Reading, word_numbers
from mtkit.decoding.search.forced import attention_to_source, check_attention, shift_right
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.progress import progress
from mtkit.report import plural, show, table, warn, wrap
from mtkit.study.attend.sentences import named_sentences
from mtkit.symbols import EOS, PAD

RANKINGS = ("leave one out", "attention", "random")
"""Rankings that decide which words are removed; each is compared with the first (Kendall's τ)."""
REMOVED = (1, 2, 3)
SKIPPED = f"under {max(REMOVED) + 1} words, too long, or several sentences"


def explain(
    model: str | None = None,
    text: str | None = None,
    references: Path | None = None,
    *,
    as_json: bool = False,
    device: str = "auto",
) -> None:
    """Measure on `text`, or on every line of stdin, and write a table (or JSON).

    The translations to explain are the lines of `references`; by default the model translates.

    Raises:
        UserError: there is no such model, it has no attention, or there is nothing to explain.
    """
    reader = Reader.load(model, device)
    check_attention(reader.model)
    sources = [sentence for _, sentence in named_sentences(text)]
    targets = [None] * len(sources) if references is None else list(input_lines(references))
    if len(targets) != len(sources):
        raise UserError(
            f"{references} has {plural(len(targets), 'line')}, but there are "
            f"{plural(len(sources), 'sentence')}"
        )
    generator = torch.Generator().manual_seed(1)
    rows = []
    with progress("explain", len(sources), "sentences") as shown:
        for source, target in zip(sources, targets, strict=True):
            with suppress(UserError):  # a sentence that cannot be read is left out
                reading = reader.read(source, target)
                if len(reading.source) > max(REMOVED) and reading.target_ids:
                    rows.append(measure_faithfulness(reader.model, reading, generator))
            shown.advance()
    if not rows:
        raise UserError(
            f"there is nothing to explain: every line is {SKIPPED}, or has no translation"
        )
    if len(rows) < len(sources):
        warn(f"left out {len(sources) - len(rows):,} of {len(sources):,} lines ({SKIPPED})")
    show(_record(rows), _table, as_json=as_json)


@torch.no_grad()
def measure_faithfulness(
    model: EncoderDecoder, reading: Reading, generator: torch.Generator
) -> tuple[Float[Tensor, "M K"], Float[Tensor, " C"]]:
    """Return means over the output words.

    - How far log P falls, in nats, for M rankings and K numbers of removed words.
    - Kendall's τ between the first ranking of source words and each other; NaN if all are tied.
    """
    single = [{word} for word in range(len(reading.source))]
    whole, *without = log_probs(model, reading, [set(), *single])
    left_out = (whole - torch.stack(without)).T  # (J, I)
    random = torch.rand(left_out.shape, generator=generator).to(left_out)
    scores = torch.stack([left_out, word_attention(model, reading).to(left_out), random])
    best = scores.argsort(dim=-1, descending=True)  # (M, J, I)
    removed = [frozenset(of[:n]) for of in best.flatten(0, 1).tolist() for n in REMOVED]
    unique = list(dict.fromkeys(removed))
    rows_by_set = dict(zip(unique, log_probs(model, reading, unique), strict=True))
    rows = torch.stack([rows_by_set[words] for words in removed])
    own = rows.view(*best.shape[:2], len(REMOVED), len(whole)).diagonal(dim1=1, dim2=3)  # (M, K, J)
    taus = kendall(scores[1:], scores[:1])
    return (whole - own).mean(dim=-1), taus.nanmean(dim=-1)


@torch.no_grad()
def log_probs(
    model: EncoderDecoder, reading: Reading, removed: Sequence[AbstractSet[int]]
) -> Float[Tensor, "R J"]:
    """Return log P of every target word (sum over subwords), after removing each set of words."""
    numbered = list(zip(reading.source_ids, word_numbers(reading.source), strict=True))
    words = torch.tensor(word_numbers(reading.target), device=model.device)
    rows = []
    for start in range(0, len(removed), 64):
        sources = [
            torch.tensor([*(symbol for symbol, word in numbered if word not in without), EOS])
            for without in removed[start : start + 64]
        ]
        source = pad_sequence(sources, batch_first=True, padding_value=PAD).to(model.device)
        target = torch.tensor([reading.target_ids], device=model.device).expand(len(source), -1)
        logits = model.project(model(source, source != PAD, shift_right(target)))
        losses = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")  # (R, T)
        sums = losses.new_zeros(len(source), len(reading.target))
        rows.append(-sums.index_add(1, words, losses))
    return torch.cat(rows)


def word_attention(model: EncoderDecoder, reading: Reading) -> Float[Tensor, "J I"]:
    """Return the attention that is used for alignments, without the attention to EOS."""
    source = torch.tensor([[*reading.source_ids, EOS]], device=model.device)
    target = torch.tensor([reading.target_ids], device=model.device)
    weights = attention_to_source(model, source, target)[0, :, :-1].cpu().numpy()
    return torch.from_numpy(
        merge(weights, word_numbers(reading.target), word_numbers(reading.source))
    )


def kendall(a: Float[Tensor, "*of I"], b: Float[Tensor, "*of I"]) -> Float[Tensor, "*of"]:
    """Return Kendall's τ-b of each pair of rows; NaN if all values of a row are tied."""
    x, y = ((rows.unsqueeze(-1) - rows.unsqueeze(-2)).sign().flatten(-2) for rows in (a, b))
    return (x * y).sum(dim=-1) / (x.square().sum(dim=-1) * y.square().sum(dim=-1)).sqrt()


def _record(rows: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    falls, taus = (torch.stack(column, dim=-1) for column in zip(*rows, strict=True))
    by_ranking = zip(RANKINGS, falls, strict=True)  # (K, N) each
    compared = zip(RANKINGS[1:], taus, strict=True)  # (N,) each
    return {
        "sentences": len(rows),
        "words_removed": REMOVED,
        "log_prob_falls": {name: [_estimate(row) for row in of] for name, of in by_ranking},
        "kendall": {f"{name} and {RANKINGS[0]}": _estimate(of) for name, of in compared},
    }


def _estimate(values: Float[Tensor, " N"]) -> dict[str, float | None]:
    """Return mean and half the 95 % confidence interval, ignoring NaN; None if unknown."""
    counted = values[~values.isnan()].double()
    half = 1.96 * counted.std().item() / len(counted) ** 0.5 if len(counted) > 1 else None
    return {"mean": counted.mean().item() if len(counted) else None, "plus_minus": half}


def _table(record: dict[str, Any]) -> Iterator[str]:
    yield f"{plural(record['sentences'], 'sentence')}; ± is half a 95% confidence interval"
    yield ""
    yield "how far log P of an output word falls without source words, in nats"
    falls = [[name, *map(_cell, of)] for name, of in record["log_prob_falls"].items()]
    yield from table([["chosen by", *(f"without {count}" for count in REMOVED)], *falls])
    yield ""
    rows = [[pair, _cell(tau)] for pair, tau in record["kendall"].items()]
    yield from table([["rank correlation of source words", "Kendall's τ"], *rows])
    yield ""
    yield from wrap(_summarise(record))


def _summarise(record: dict[str, Any]) -> str:
    """Return what the numbers mean, in words and units."""
    important, attended, random = (
        record["log_prob_falls"][ranking][0]["mean"] for ranking in RANKINGS
    )
    tau = record["kendall"][f"attention and {RANKINGS[0]}"]["mean"]
    agreement = "cannot be compared" if tau is None else f"agree with τ = {tau:.2f}"

    def cost(fall: float) -> str:
        # An untrained model may translate better without a word.
        share = f" ({fall / important:.0%} of that)" if important > 0 else ""
        return f"{fall:.2f} nats{share}"

    return (
        f"In words: without the source word that matters most, log P of an output word falls by "
        f"{important:.2f} nats; without the most attended word by {cost(attended)}; without a "
        f"random word by {cost(random)}. One nat divides the probability by 2.72. The order of the "
        f"source words by attention and the order by importance {agreement} (1: equal, 0: "
        "unrelated, -1: opposite)."
    )


def _cell(estimate: dict[str, float | None]) -> str:
    mean, half = estimate["mean"], estimate["plus_minus"]
    shown = "-" if mean is None else f"{mean:.3f}"
    return shown if half is None else f"{shown} ± {half:.3f}"
