"""From text to text: the stages one after the other, as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.batching import build_batches
from mtkit.decoding import Translator
from mtkit.scoring import corpus_bleu
from mtkit.tokenizer import train_tokenizer
from mtkit.training import train
from tasks import tiny_config, write_reversal_task

LEARN = {
    "transformer": {
        "steps": 700,
        "warmup": 100,
        "schedule": {"kind": "inverse_sqrt", "peak": 4e-3},
    },
    "seq2seq": {"steps": 400, "warmup": 50},
}


@pytest.mark.parametrize("kind", LEARN)
def test_a_reversing_task_is_learnt_to_bleu_above_95(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_reversal_task(tmp_path, train=3000)
    config = tiny_config(
        tmp_path,
        kind,
        batching={"max_tokens": 1024},
        model={
            "d_model": 64,
            "dropout": 0.0,
            **({"heads": 4, "ffn": 128} if kind == "transformer" else {}),
        },
        training={**LEARN[kind], "label_smoothing": 0.0, "validate_every": 100, "save_every": 200},
    )
    train_tokenizer(config)
    build_batches(config)
    train(config)
    sources, references = (
        (tmp_path / f"test.{side}").read_text("utf-8").splitlines() for side in ("src", "tgt")
    )
    hypotheses = Translator.load(tmp_path / "run").translate(sources)
    assert corpus_bleu(hypotheses, references) > 95
