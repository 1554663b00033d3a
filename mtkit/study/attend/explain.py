"""`mtkit attend --explain`: how faithful attention is on a test set, as a table and a picture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from mtkit.decoding.aligning import source_words, target_words
from mtkit.decoding.contract import Key, Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.forced import check_attention
from mtkit.decoding.lines import read_lines
from mtkit.decoding.model import OpenedModel, open_model
from mtkit.errors import UserError
from mtkit.report import data, progress, table, warn
from mtkit.study.attend.faithfulness import COMPARED, RANKINGS, TAKEN_OUT, Faithfulness, measure
from mtkit.study.attend.importance import Pair
from mtkit.study.attend.show import sentences_of
from mtkit.study.plots.picture import check_picture, figure, save
from mtkit.tokenizer.symbols import EOS

PAIR_NAMES = [" and ".join(pair) for pair in COMPARED]
FEWEST = max(TAKEN_OUT) + 1
"""Words of a source sentence, so that one is left."""


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
    Sentences of under FEWEST words are left out, and those that are too long for the model.
    Raises UserError before any work.
    """
    if output is not None:
        check_picture(output)
    opened = open_model(model)
    engine = PyTorchEngine.load(opened, device)
    check_attention(engine.model)
    sources = [sentence for _, sentence in sentences_of(text)]
    targets = None if references is None else list(read_lines(references))
    if targets is not None and len(targets) != len(sources):
        counted = f"{len(targets)} lines for {len(sources)} sentences"
        raise UserError(f"{references}: {counted}: they must be parallel")
    pairs = _pairs(engine, opened, sources, targets)
    limits = f"under {FEWEST} words, or over {opened.config.decoding.max_length} subwords"
    if not pairs:
        raise UserError(f"nothing to explain: every sentence is {limits}, or has no translation")
    if len(pairs) < len(sources):
        count = len(sources) - len(pairs)
        warn(f"{count} of {len(sources)} sentences left out: {limits}, or without translation")
    with progress("explain", len(pairs), "sentences") as shown:
        found = measure(engine.model, pairs, shown.advance)
    data(_json(found) if as_json else "".join(f"{line}\n" for line in _table(found)))
    if output is not None:
        _draw(found, output)


def _pairs(
    engine: PyTorchEngine, opened: OpenedModel, sources: list[str], targets: list[str] | None
) -> list[Pair]:
    """Of the sentences that can be measured."""
    tokenizer, settings = opened.tokenizer, opened.config.decoding
    read = {
        line: ids
        for line, ids in enumerate(tokenizer.encode_source(sources))
        if len(ids) <= settings.max_length
    }
    if targets is None:
        sentences: dict[Key, list[int]] = {(line,): [*ids, EOS] for line, ids in read.items()}
        found = engine.submit(sentences, Request(settings)).wait()
        written = [ranked[0].tokens for ranked in found]
    else:
        written = tokenizer.encode_target([targets[line] for line in read])
    device = engine.model.output_weight.device
    pairs = [
        Pair.of(
            ids,
            target,
            source_words(tokenizer, sources[line], [sources[line]]),
            target_words(tokenizer, target, tokenizer.decode([target])[0]),
            device,
        )
        for (line, ids), target in zip(read.items(), written, strict=True)
        if ids and target and len(target) <= settings.max_length
    ]
    return [pair for pair in pairs if pair.size[0] >= FEWEST]


def _table(found: Faithfulness) -> Iterator[str]:
    yield f"{len(found.kendall):,} sentences; ± is half an interval of 95 % over sentences"
    columns = [f"{count} out" for count in TAKEN_OUT]
    for name, falls in (("log P", found.log_prob_falls), ("P", found.prob_falls)):
        yield ""
        yield f"how far {name} of an output word falls when source words are taken out"
        rows = zip(RANKINGS, _means(falls), strict=True)
        yield from table([["chosen by", *columns], *([way, *map(str, row)] for way, row in rows)])
    yield ""
    yield "rank correlation of source words"
    correlations = zip(PAIR_NAMES, _means(found.kendall), _means(found.spearman), strict=True)
    rows_of_text = [[name, str(tau), str(rho)] for name, tau, rho in correlations]
    yield from table([["between", "Kendall's τ", "Spearman's ρ"], *rows_of_text])


@dataclass(frozen=True)
class Mean:
    """Over sentences; one that is NaN does not count. None is what cannot be known."""

    mean: float | None
    plus_minus: float | None
    """Half an interval of 95 %."""

    @classmethod
    def of(cls, values: Float[Tensor, " N"]) -> Mean:
        counted = values[~values.isnan()].double()
        if not len(counted):
            return cls(None, None)
        half = 1.96 * counted.std().item() / len(counted) ** 0.5 if len(counted) > 1 else None
        return cls(counted.mean().item(), half)

    def __str__(self) -> str:
        if self.mean is None:
            return "-"
        return f"{self.mean:.3f}" + ("" if self.plus_minus is None else f" ± {self.plus_minus:.3f}")


def _means(values: Tensor) -> Any:
    """Nested lists of Mean, as the dimensions of `values` after the first."""
    if values.dim() == 1:
        return Mean.of(values)
    return [_means(column) for column in values.unbind(dim=1)]


def _json(found: Faithfulness) -> str:
    record = {
        "sentences": len(found.kendall),
        "words_taken_out": TAKEN_OUT,
        "log_prob_falls": dict(zip(RANKINGS, _means(found.log_prob_falls), strict=True)),
        "prob_falls": dict(zip(RANKINGS, _means(found.prob_falls), strict=True)),
        "kendall": dict(zip(PAIR_NAMES, _means(found.kendall), strict=True)),
        "spearman": dict(zip(PAIR_NAMES, _means(found.spearman), strict=True)),
    }
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False, default=vars) + "\n"


def _draw(found: Faithfulness, path: Path) -> None:
    drawn, (left, right) = figure(width=12, columns=2)
    for name, row in zip(RANKINGS, _means(found.log_prob_falls), strict=True):
        halves = [one.plus_minus or 0.0 for one in row]
        left.errorbar(
            TAKEN_OUT, [one.mean for one in row], halves, marker="o", capsize=3, label=name
        )
    left.set(xlabel="source words taken out", ylabel="fall of log P of an output word")
    left.set_xticks(TAKEN_OUT)
    left.set_ylim(bottom=0)
    drawn.legend(title="chosen by", ncols=len(RANKINGS), loc="outside upper left", frameon=False)
    taus = [of_pair[~of_pair.isnan()].tolist() for of_pair in found.kendall.T]
    labels = ["\nand\n".join(pair) for pair in COMPARED]
    right.boxplot(taus, tick_labels=labels, showfliers=False, medianprops={"color": "black"})
    right.axhline(0, color="black", linewidth=0.8)
    right.set(ylabel="Kendall's τ of source words, by sentence")
    save(drawn, path)
