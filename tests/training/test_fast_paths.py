"""What makes training fast changes nothing but rounding: each fast path has a plain one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pytest import MonkeyPatch
from torch import Tensor
from torch.nn.functional import cross_entropy

import mtkit
from mtkit.models.acceleration import Acceleration
from mtkit.models.attention import MultiHeadAttention
from mtkit.symbols import PAD
from mtkit.training.batch import Batch
from mtkit.training.loss import Loss, TrainingLoss
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.train import train
from tasks import Fresh

pytestmark = pytest.mark.slow

STEPS = 8
FIGURES = ("loss", "smoothed_loss", "gradient_norm", "perplexity", "bleu", "chrf")
"""What is logged of steps and validations, and does not depend on time."""
LINES = ["ant bee", "cat dog eel fox gnu", "jay", "ibis hen ibis"]


def without_prefetch(patch: MonkeyPatch) -> None:
    """Produce each step and each validation batch when it is needed, in the same thread."""

    def wait_for_each(items: Iterable[Any], count: int = 2) -> Iterator[Any]:
        yield from items

    patch.setattr("mtkit.training.train.prefetch", wait_for_each)
    patch.setattr("mtkit.training.data.prefetch", wait_for_each)


def without_packing(patch: MonkeyPatch) -> None:
    """Read sentences as padded rows, and compute the loss from all logits as PyTorch does."""

    def forward(self: TrainingLoss, batch: Batch) -> Loss:
        def rows(tokens: Tensor, layout: Any) -> Tensor:
            return torch.where(layout.mask, tokens[layout.token], PAD)

        source = rows(batch.source, batch.source_layout)
        target = rows(batch.target_input, batch.target_layout)
        gold = rows(batch.target_output, batch.target_layout).flatten()
        hidden = self.model(source, batch.source_layout.mask, target)
        logits = self.model.project(hidden).flatten(0, 1)

        def loss(smoothing: float) -> Tensor:
            return cross_entropy(
                logits, gold, ignore_index=PAD, reduction="sum", label_smoothing=smoothing
            )

        return Loss(smoothed=loss(self.smoothing), nll=loss(0.0).detach())

    patch.setattr(TrainingLoss, "forward", forward)


def with_shared_rows(patch: MonkeyPatch) -> None:
    """Let several sentences share a row, as on a GPU."""
    patch.setattr(Acceleration, "shared_row_width", lambda self, model: 16)


def with_fused_attention(patch: MonkeyPatch) -> None:
    """Use PyTorch's fused attention, as on a GPU, instead of products and a softmax."""
    patch.setattr(MultiHeadAttention, "fused_on", ("cuda", "cpu"))


EXACT = {"without prefetch": without_prefetch}
"""Paths that give the same bits."""
ROUNDED: dict[str, Callable[[MonkeyPatch], None]] = {
    "without packing": without_packing,
    "with shared rows": with_shared_rows,
    "with fused attention": with_fused_attention,
}
OF_TRANSFORMERS = ("with shared rows", "with fused attention")


def trained(fresh: Fresh, kind: str, run: str, ranks: int = 1) -> list[dict[str, float]]:
    """Train a tiny model, and return the figures that were logged."""
    training = {"steps": STEPS, "log_every": 1, "validate_every": 4, "accumulate": 2}
    model = {"dropout": 0.0}  # its random numbers depend on how a batch is laid out
    train(fresh(kind, run, model=model, training=training | {"ranks": ranks}))
    records = MetricsLog(Path(run)).read()
    return [{name: record[name] for name in FIGURES if name in record} for record in records]


@pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
def test_a_run_without_fast_paths_has_the_same_losses(kind: str, fresh: Fresh) -> None:
    expected = trained(fresh, kind, "usual")
    assert len(expected) == STEPS + 2
    for name, change in (EXACT | ROUNDED).items():
        if kind != "transformer" and name in OF_TRANSFORMERS:
            continue
        with MonkeyPatch.context() as patch:
            change(patch)
            found = trained(fresh, kind, name)
        if name in EXACT:
            assert found == expected, name
        else:
            for record, other in zip(found, expected, strict=True):
                assert record == pytest.approx(other, rel=1e-5), name
    two = trained(fresh, kind, "two processes", ranks=2)
    for record, other in zip(two, expected, strict=True):
        assert record == pytest.approx(other, rel=1e-5)


def test_a_run_is_translated_alike_with_and_without_ctranslate2(fresh: Fresh) -> None:
    trained(fresh, "transformer", "usual")
    plain, fast = (
        [
            [(one.text, one.score) for one in (line, *line.alternatives)]
            for line in mtkit.load("usual", "cpu", engine=engine).results(LINES, n_best=2)
        ]
        for engine in ("torch", "ctranslate2")
    )
    for ours, theirs in zip(plain, fast, strict=True):
        assert [text for text, _ in ours] == [text for text, _ in theirs]
        assert [score for _, score in ours] == pytest.approx([score for _, score in theirs])
