"""All stages in order, as a user of the Python API runs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mtkit
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from tasks import tiny_config, write_reversal_task

LEARN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "transformer": (
        {"d_model": 64, "heads": 4, "ffn": 128, "dropout": 0.0},
        {"steps": 800, "warmup": 100, "schedule": {"kind": "cosine", "peak": 4e-3}},
    ),
    "seq2seq": ({"d_model": 64, "dropout": 0.1}, {"steps": 250, "warmup": 40}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEARN)
def test_each_architecture_learns_to_reverse_sentences(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_reversal_task(tmp_path, train=4000, held_out=200)
    model, training = LEARN[kind]
    often = {"label_smoothing": 0.0, "validate_every": 200, "save_every": 200}
    config = tiny_config(
        tmp_path, kind, batching={"max_tokens": 1024}, model=model, training=training | often
    )
    assert mtkit.run(config)["bleu"].value > 95


def test_run_takes_a_path_and_returns_the_scores_again(
    fresh: Callable[..., Config], capsys: pytest.CaptureFixture[str]
) -> None:
    config = fresh("transformer", training={"steps": 2})
    Path("mtkit.yaml").write_text(dump_config(config), "utf-8")
    first = mtkit.run("mtkit.yaml")
    assert capsys.readouterr().out == ""
    assert first.keys() >= {"bleu", "chrf"}
    assert mtkit.run(Path("mtkit.yaml")) == first
    assert "test: up to date" in capsys.readouterr().err
    hypotheses, references = (
        (Path(config.run) / "test" / f"{name}.txt").read_text("utf-8").splitlines()
        for name in ("hypotheses", "reference")
    )
    scores = mtkit.score(hypotheses, references)
    assert scores["chrf"].value == pytest.approx(first["chrf"].value, abs=1e-4)
