"""Each record of a run survives a crash and is written once."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from mtkit.artifacts.manifest import open_artifact
from mtkit.extras.study.curves import points_of
from mtkit.scoring.metrics import score
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.train import train
from tasks import Capture, Fresh


@given(st.lists(st.integers(0, 20), max_size=20), st.integers(0, 20), st.text('0 ,a"', max_size=8))
def test_truncate_keeps_complete_records_up_to_the_step(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], last: int, torn: str
) -> None:
    log = MetricsLog(tmp_path_factory.mktemp("run"))
    for step in steps:
        log.write({"step": step, "text": "ä\u2028"})
    with log.path.open("a", encoding="utf-8") as file:
        file.write('{"step": ' + torn.replace("\n", ""))
    log.truncate(last)
    log.write({"step": 99})
    records = [json.loads(line) for line in log.path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert [record["step"] for record in records] == [s for s in steps if s <= last] + [99]


def test_records_are_on_the_disk_when_write_and_truncate_return(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    log, stored = MetricsLog(tmp_path), {}

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        stored[status.st_ino] = status.st_size

    monkeypatch.setattr(os, "fsync", fsync)
    for step in (1, 2):
        log.write({"step": step})
        assert stored[log.path.stat().st_ino] == log.path.stat().st_size > 0
    log.truncate(1)
    assert stored[log.path.stat().st_ino] == log.path.stat().st_size > 0


def test_values_that_are_not_finite_are_written_as_null(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    log.write({"step": 1, "kind": "valid", "loss": float("nan"), "gradient_norm": float("inf")})
    (line,) = log.path.read_text(encoding="utf-8").splitlines()
    record = json.loads(line, parse_constant=lambda word: pytest.fail(word))
    assert (record["loss"], record["gradient_norm"]) == (None, None)
    assert points_of([record], "valid", "loss") == []


def test_a_log_of_any_length_gives_a_bounded_number_of_records_and_is_truncated_as_a_whole(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr("mtkit.training.metrics_log.MAX_RECORDS", 3)
    log = MetricsLog(tmp_path)
    for step in range(10):
        log.write({"step": step})
    assert [record["step"] for record in log.read()] == [0, 1, 2]
    log.truncate(8)
    assert log.path.read_text().count("\n") == 9


def test_truncate_of_a_new_run_writes_nothing(tmp_path: Path) -> None:
    MetricsLog(tmp_path).truncate(0)
    assert list(tmp_path.iterdir()) == []


def test_points_are_the_finite_numbers_of_a_log(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    for loss in (1.5, math.nan, "high", None, True, math.inf, 10**400):
        log.write({"kind": "train", "step": 1, "loss": loss})
    log.write({"kind": "train", "step": "two", "loss": 2.0})
    assert points_of(log.read(), "train", "loss") == [(1, 1.5)]
    assert MetricsLog(tmp_path / "none").read() == []


def test_every_stored_score_has_its_signature(fresh: Fresh, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.scoring.writing.MIN_LONG_LINES", 0.0)
    train(fresh("transformer", data={"target_language": "zh"}))
    theirs = {"bleu": BLEU(tokenize="zh"), "chrf": CHRF()}
    for metric in theirs.values():
        metric.corpus_score(["a"], [["a"]])
    signed = {name: str(metric.get_signature()) for name, metric in theirs.items()}
    records = MetricsLog(Path("run")).read()
    valid = [record for record in records if record["kind"] == "valid"]
    assert len(valid) == 2
    assert all(record["signatures"] == signed for record in valid)
    assert open_artifact(Path("run/model"), "model").report["signatures"] == signed


@pytest.mark.parametrize("best_by", ["bleu", "step"])
def test_a_star_marks_a_better_validation_and_lines_too_short_for_bleu_have_none(
    best_by: str, fresh: Fresh, capsys: Capture
) -> None:
    training = {"best_by": best_by, "average": 1, "validate_every": 2}
    model = train(fresh("transformer", training=training))
    valid = [it for it in MetricsLog(Path("run")).read() if it["kind"] == "valid"]
    stars = [" * best" in it for it in capsys.readouterr().err.splitlines() if " valid: " in it]
    scores = [it["chrf"] for it in valid]
    best = max(range(len(valid)), key=lambda at: (scores[at], -valid[at]["loss"]))
    assert len(stars) == len(valid) and not any("bleu" in it for it in valid)
    if best_by == "step":
        assert not any(stars) and model.report["weights"] == "last checkpoint"
    else:
        assert stars[0] and stars[best] and not any(stars[best + 1 :])
        assert model.report["averaged_steps"] == [valid[best]["step"]]


def test_a_validation_scores_lines_of_the_whole_set(
    fresh: Fresh, monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    scored: list[list[str]] = []

    def record(hypotheses: list[str], references: list[str], **options: Any) -> Any:
        scored.append(references)
        return score(hypotheses, references, **options)

    monkeypatch.setattr("mtkit.training.validation.score", record)
    training = {"steps": 10, "validate_every": 2, "validation_sentences": 4}
    config = fresh("transformer", training=training)
    train(config)
    targets = Path("run/batches/valid.target.txt").read_text().splitlines()
    assert len(targets) == 20
    assert scored[:5] == [[targets[row] for row in (0, 5, 10, 15)]] * 5
    # Translations are shown at the first, the middle and the last validation.
    lines = capsys.readouterr().err.splitlines()
    shown = [
        line.split()[1] for row, line in enumerate(lines) if lines[row - 1].startswith("  ref")
    ]
    assert [step for step in shown if step.isdecimal()] == ["2", "6", "10"]
