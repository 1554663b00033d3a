"""`mtkit attend --explain`: how faithful attention is on a test set, as a table and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mtkit.decoding.forced import check_attention
from mtkit.decoding.lines import input_lines
from mtkit.errors import UserError
from mtkit.progress import progress
from mtkit.report import show, table, warn
from mtkit.study.attend.faithfulness import COMPARED, RANKINGS, TAKEN_OUT, Pair, measure
from mtkit.study.attend.show import Reader, sentences_of
from mtkit.study.attend.weights import as_words
from mtkit.study.plots.picture import check_picture, figure, save

LEAST_WORDS = max(TAKEN_OUT) + 1
"""Number of words that a source sentence has at least, so that one is left."""


def explain(
    model: str | None = None,
    text: str | None = None,
    references: Path | None = None,
    output: Path | None = None,
    *,
    as_json: bool = False,
    device: str = "auto",
) -> None:
    """Measures on `text`, or on every line of standard input, and writes a table (or JSON).

    The translations that are explained are the lines of `references`, else the model's own.
    Left out are sentences of under LEAST_WORDS words, those that the model cannot read in one, and
    those of no letter that it knows.
    Raises UserError before any work.
    """
    if output is not None:
        check_picture(output)
    reader = Reader.load(model, device, as_words)
    check_attention(reader.model)
    sources = [sentence for _, sentence in sentences_of(text)]
    targets = [None] * len(sources) if references is None else list(input_lines(references))
    if len(targets) != len(sources):
        counts = f"{len(targets)} lines for {len(sources)} sentences"
        raise UserError(f"{references}: {counts}: they must be parallel")
    pairs = list(_pairs(reader, sources, targets))
    limits = f"under {LEAST_WORDS} words, over {reader.settings.max_length} subwords"
    limits += ", several sentences or parts, of unknown letters"
    if not pairs:
        raise UserError(f"nothing to explain: every line is {limits}, or has no translation")
    if len(pairs) < len(sources):
        count = len(sources) - len(pairs)
        warn(f"{count} of {len(sources)} lines left out: {limits}, or without translation")
    with progress("explain", len(pairs), "sentences") as shown:
        found = measure(reader.model, pairs, shown.advance)
    record = found.record()
    show(record, _table, as_json=as_json)
    if output is not None:
        _draw(record, found.kendall, output)


def _pairs(reader: Reader, sources: Sequence[str], targets: Sequence[str | None]) -> Iterator[Pair]:
    """The sentences that can be measured, with their translations."""
    device = reader.model.device
    with progress("read", len(sources), "sentences") as shown:
        for source, target in zip(sources, targets, strict=True):
            shown.advance()
            with suppress(UserError):  # a sentence that cannot be read is left out
                read = reader.read(source, target)
                if len(read.source.texts) >= LEAST_WORDS and read.target_ids:
                    words = (read.source.of_subword, read.target.of_subword)
                    sides = (read.source_ids, read.target_ids, *words)
                    yield Pair(*(torch.tensor(side, device=device) for side in sides))


def _table(record: dict[str, Any]) -> Iterator[str]:
    yield f"{record['sentences']:,} sentences; ± is half an interval of 95 % over sentences"
    columns = [f"{count} out" for count in TAKEN_OUT]
    for name, key in (("log P", "log_prob_falls"), ("P", "prob_falls")):
        yield ""
        yield f"how far {name} of an output word falls when source words are taken out"
        rows = [[ranking, *map(_cell, falls)] for ranking, falls in record[key].items()]
        yield from table([["chosen by", *columns], *rows])
    yield ""
    yield "rank correlation of source words"
    rho = record["spearman"]
    rows = [[pair, _cell(tau), _cell(rho[pair])] for pair, tau in record["kendall"].items()]
    yield from table([["between", "Kendall's τ", "Spearman's ρ"], *rows])


def _cell(estimate: dict[str, float | None]) -> str:
    mean, half = estimate["mean"], estimate["plus_minus"]
    shown = "-" if mean is None else f"{mean:.3f}"
    return shown if half is None else f"{shown} ± {half:.3f}"


def _draw(record: dict[str, Any], kendall: Float[Tensor, "N 4"], path: Path) -> None:
    drawn, (left, right) = figure(width=12, columns=2)
    for ranking, falls in record["log_prob_falls"].items():
        means = [estimate["mean"] for estimate in falls]
        halves = [estimate["plus_minus"] or 0.0 for estimate in falls]
        left.errorbar(TAKEN_OUT, means, halves, marker="o", capsize=3, label=ranking)
    left.set(xlabel="source words taken out", ylabel="fall of log P of an output word")
    left.set(xticks=TAKEN_OUT, ylim=(0, None))
    drawn.legend(title="chosen by", ncols=len(RANKINGS), loc="outside upper left", frameon=False)
    taus = [of_pair[~of_pair.isnan()].tolist() for of_pair in kendall.T]
    labels = ["\nand\n".join(pair) for pair in COMPARED]
    right.boxplot(taus, tick_labels=labels, showfliers=False, medianprops={"color": "black"})
    right.axhline(0, color="black", linewidth=0.8)
    right.set(ylabel="Kendall's τ of source words, by sentence")
    save(drawn, path)
