"""All stages in order, as a user of the Python API runs them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mtkit
import mtkit.evaluation
import mtkit.pipeline
from commands import call
from mtkit.artifacts.runs import SETTINGS_HEADER
from mtkit.config.corpora import TextCorpus
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from tasks import tiny_config, write_reversal_task

LEARN: dict[str, dict[str, dict[str, Any]]] = {
    "transformer": {
        "batching": {"max_tokens": 384},
        "model": {"d_model": 64, "heads": 4, "ffn": 128, "dropout": 0.0},
        "training": {
            "steps": 600,
            "warmup": 40,
            "optimizer": {"kind": "muon"},
            "schedule": {"kind": "cosine", "peak": 0.01},
        },
    },
    "seq2seq": {
        "batching": {"max_tokens": 512},
        "model": {"d_model": 64, "dropout": 0.0},
        "training": {"steps": 200, "warmup": 20, "schedule": {"kind": "cosine", "peak": 0.01}},
    },
}
"""Settings with which a model learns in seconds."""
OFTEN = {"label_smoothing": 0.0, "validate_every": 200, "save_every": 200}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEARN)
def test_each_architecture_learns_to_reverse_sentences(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_reversal_task(tmp_path, train=4000, held_out=200)
    sections = LEARN[kind]
    training = sections["training"] | OFTEN
    config = tiny_config(tmp_path, kind, **sections | {"training": training})
    assert mtkit.run(config)["bleu"].value > 95


def test_run_takes_a_path_and_returns_the_scores_again(
    fresh: Callable[..., Config], capsys: pytest.CaptureFixture[str]
) -> None:
    config = fresh("transformer", training={"steps": 2})
    Path("mtkit.yaml").write_text(dump_config(config), "utf-8")
    first = mtkit.run("mtkit.yaml")
    said = capsys.readouterr()
    assert said.out == ""
    assert "verdict: " in said.err
    assert first.keys() >= {"bleu", "chrf"}
    assert mtkit.run(Path("mtkit.yaml")) == first
    lines = str(first).splitlines()
    assert [line.split()[0] for line in lines] == ["BLEU", "chrF2", "TER"]
    assert "\n" not in repr(first)
    assert "test: up to date" in capsys.readouterr().err
    hypotheses, references = (
        (Path(config.run) / "test" / f"{name}.txt").read_text("utf-8").splitlines()
        for name in ("hypotheses", "reference")
    )
    scores = mtkit.score(hypotheses, references)
    assert {key: it.value for key, it in scores.items()} == {k: it.value for k, it in first.items()}


def test_run_and_score_print_the_same_figures_and_run_ends_with_a_verdict(
    fresh: Callable[..., Config], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mtkit.yaml").write_text(dump_config(fresh("transformer", training={"steps": 2})), "utf-8")
    assert call("run") == 0
    said = capsys.readouterr()
    first = figures(said.out)
    folder = Path("run/test")
    assert call("score", "-r", str(folder / "reference.txt"), str(folder / "hypotheses.txt")) == 0
    second = figures(capsys.readouterr().out)
    assert first == {name: second[name] for name in first} and len(first) >= 3
    assert "nrefs" not in said.out  # `mtkit score` prints the signatures
    lines = said.err.splitlines()
    last = [line.partition(":")[0] for line in lines[-3:]]
    assert last == ["test", "verdict", "baseline"]
    (named,) = [
        line for line in lines if line.startswith("to see signatures and the worst lines: ")
    ]
    assert call(*named.partition(": mtkit ")[2].split()) == 0
    shown = capsys.readouterr().out
    assert "nrefs" in shown and "\n  source      " in shown


def test_a_test_set_that_takes_too_long_is_scored_in_part_and_the_rest_is_at_hand(
    fresh: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("mtkit.evaluation.max_test_seconds", lambda seconds: 0.0)
    config = fresh("transformer", training={"steps": 2})
    assert isinstance(config.data.test, TextCorpus)
    for side in ("source", "target"):
        path = Path(getattr(config.data.test, side))
        Path(f"long.{side}").write_text(path.read_text("utf-8") * 4, "utf-8")
    test = TextCorpus(source="long.source", target="long.target")
    data = config.data.model_copy(update={"test": test})
    config = config.model_copy(update={"run": "run", "data": data})
    Path("mtkit.yaml").write_text(dump_config(config), "utf-8")
    assert call("run") == 0
    all_lines = Path("long.source").read_text("utf-8").splitlines()
    scored = Path("run/test/source.txt").read_text("utf-8").splitlines()
    assert mtkit.evaluation.MIN_TEST_LINES <= len(scored) < len(all_lines)
    quarter = len(all_lines) // 4
    for start in range(0, len(all_lines), quarter):
        assert {*scored} & {*all_lines[start : start + quarter]}
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("scored ")]
    assert line.startswith(f"scored {len(scored)} of {len(all_lines)} lines, spread over the test")
    assert line.endswith(
        "run/test has all lines for `mtkit translate` and `mtkit score`: "
        "all.reference.txt, all.source.txt"
    )
    assert Path("run/test/all.source.txt").read_text("utf-8").splitlines() == all_lines


def figures(out: str) -> dict[str, str]:
    """Return the figure with its interval for each metric in a table of scores."""
    rows = (re.split(" {2,}", line.strip()) for line in out.partition("\n\n")[0].splitlines())
    return {row[0]: row[1] for row in rows if len(row) == 2 and "[" in row[1] and "%" not in row[1]}


def test_finish_needs_no_training_text(
    fresh: Callable[..., Config], capsys: pytest.CaptureFixture[str]
) -> None:
    config = fresh("transformer", training={"steps": 2})
    mtkit.run(config)
    shutil.rmtree(Path(config.run) / "test")
    gone = TextCorpus(source="gone.src", target="gone.tgt")
    data = config.data.model_copy(update={"train": gone})
    text = dump_config(config.model_copy(update={"data": data}))
    (Path(config.run) / "config.yaml").write_text(SETTINGS_HEADER + text, "utf-8")
    capsys.readouterr()
    assert call("finish", "run") == 0
    said = capsys.readouterr()
    assert "not compared with the training data" in said.err and "verdict: " in said.err
    assert figures(said.out)
