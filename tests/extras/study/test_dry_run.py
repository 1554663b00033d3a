"""`mtkit train --dry-run N` says what N processes would do, without doing it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch

from commands import call
from crashes import contents
from mtkit.artifacts.runs import CHECKPOINTS
from mtkit.batching.build import open_batches
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.extras.study import dry_run as module
from mtkit.extras.study.dry_run import LINKS, Share, dry_run
from mtkit.training.data import Position, Stream
from mtkit.training.process_group import ProcessGroup
from mtkit.training.train import train
from tasks import Capture, Fresh

SHARE = Share(
    processes=4,
    tokens=4000.0,
    seconds=0.1,
    steps_per_epoch=10,
    total_steps=100,
    gradient_bytes=1 << 20,
    peak="",
    model="",
)
ALONE = replace(SHARE, processes=1, seconds=0.4)


class One(ProcessGroup):
    """One of several processes, without any communication."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size


@pytest.fixture(autouse=True)
def _short(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.05)


def figures(report: str) -> dict[str, int]:
    """Return the numbers of a report by their names."""
    lines = re.findall(r"^(\w.*?)  +([\d,]+)$", report, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in lines}


def epoch_of(config: Config, rank: int, processes: int) -> tuple[int, int]:
    """Return the steps of an epoch, and how many target tokens this process computes in them."""
    stream = Stream(config, open_batches(Path(config.run) / "batches"), One(rank, processes))
    steps = tokens = 0
    for data in stream.steps(Position()):
        steps += 1
        tokens += sum(batch.target_tokens for batch in data.batches)
        if data.position.epoch == 1:
            break
    return steps, tokens


@pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
@pytest.mark.parametrize("accumulate", [1, 2, "auto"])
def test_steps_and_tokens_are_those_of_training(
    kind: str, accumulate: int | str, fresh: Fresh, capsys: Capture
) -> None:
    training = {"accumulate": accumulate, "epochs": 3, "steps": None}
    config = fresh(kind, training=training)
    dry_run(config, 3)
    said = figures(capsys.readouterr().out)
    epochs = [epoch_of(config, rank, 3) for rank in range(3)]
    (steps,) = {steps for steps, _ in epochs}
    assert said["steps per epoch"] == steps
    assert said["steps of the run"] == 3 * steps
    mean = sum(tokens for _, tokens in epochs) / 3 / steps
    assert said["target tokens per process and step"] == round(mean)


@pytest.mark.slow
def test_a_run_makes_as_many_steps_as_the_dry_run_says_and_a_dry_run_writes_nothing(
    fresh: Fresh, tmp_path: Path, capsys: Capture
) -> None:
    config = fresh("transformer", training={"epochs": 2, "steps": None, "ranks": 1})
    Path("mtkit.yaml").write_text(dump_config(config), encoding="utf-8")
    before = contents(tmp_path)
    assert call("train", "--dry-run", "1") == 0
    assert contents(tmp_path) == before
    said = figures(capsys.readouterr().out)
    train(config)
    last = max(path.name for path in (Path(config.run) / CHECKPOINTS).glob("step-*"))
    assert last == f"step-{said['steps of the run']:08d}"


def test_a_dry_run_needs_the_batches(fresh: Fresh, tmp_path: Path, capsys: Capture) -> None:
    config = fresh("transformer").model_copy(update={"run": "empty"})
    Path("mtkit.yaml").write_text(dump_config(config), encoding="utf-8")
    assert call("train", "--dry-run", "2") == 2
    assert "`mtkit train-spm`" in capsys.readouterr().err
    assert not Path("empty").exists()


@given(st.integers(2, 10_000), st.sampled_from(LINKS))
def test_an_all_reduce_moves_the_gradients_once_to_twice(processes: int, link: int) -> None:
    bits = 8 * SHARE.gradient_bytes
    seconds = replace(SHARE, processes=processes).all_reduce_seconds(link)
    assert bits / (1e9 * link) <= seconds < 2 * bits / (1e9 * link)


def test_speed_is_relative_to_one_process_that_exchanges_nothing() -> None:
    assert ALONE.all_reduce_seconds(10) == 0
    assert ALONE.speedup(ALONE, 0.0) == 1
    assert SHARE.speedup(ALONE, 0.0) == 4
