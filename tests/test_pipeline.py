"""From text to text: the stages one after the other, as a user runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mtkit.batching.build import build_batches
from mtkit.decoding.api import Translator
from mtkit.scoring.metrics import corpus_bleu
from mtkit.tokenizer.train import train_tokenizer
from mtkit.training.train import train
from tasks import tiny_config, write_reversal_task

pytestmark = pytest.mark.slow
LEARN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "transformer": (
        {"d_model": 64, "heads": 4, "ffn": 128, "dropout": 0.0},
        {"steps": 800, "warmup": 100, "schedule": {"kind": "cosine", "peak": 4e-3}},
    ),
    "seq2seq": ({"d_model": 64, "dropout": 0.1}, {"steps": 250, "warmup": 40}),
}


@pytest.mark.parametrize("kind", LEARN)
def test_a_reversing_task_is_learnt_to_bleu_above_95(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_reversal_task(tmp_path, train=4000, held_out=200)
    model, training = LEARN[kind]
    often = {"label_smoothing": 0.0, "validate_every": 200, "save_every": 200}
    config = tiny_config(
        tmp_path, kind, batching={"max_tokens": 1024}, model=model, training=training | often
    )
    train_tokenizer(config)
    build_batches(config)
    train(config)
    sources, references = (
        (tmp_path / f"test.{side}").read_text("utf-8").splitlines() for side in ("src", "tgt")
    )
    hypotheses = Translator.load(tmp_path / "run").translate(sources)
    assert corpus_bleu(hypotheses, references) > 95
