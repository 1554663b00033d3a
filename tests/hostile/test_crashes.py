"""Whatever happens to a process, the same command again ends as if nothing had happened.

The campaign takes minutes: `pytest -m campaign -rP` runs it and shows what the kills hit.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from crashes import (
    COMMANDS,
    TRANSLATION,
    Contents,
    Ending,
    Kill,
    Moment,
    Runner,
    contents,
    kills,
    run,
    run_alone,
    said,
    start,
)
from mtkit.config.configfile import dump_config
from tasks import tiny_config, write_reversal_task

both = pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
RICH = {
    "accumulate": 2,
    "ema": 0.9,
    "subword_sampling": {"alpha": 0.3},
    "schedule": {"kind": "plateau", "peak": 0.01, "patience": 1},
    "log_every": 3,
    "validate_every": 6,
    "save_every": 2,
    "keep": 2,
    "average": 3,
    "best_by": "loss",
}
SHORT, SAMPLE, LONG = 4, 20, 60
"""Updates."""


@dataclass(frozen=True)
class Task:
    """What is to be done, and what comes of it where nothing is killed."""

    corpus: Path
    kind: str
    steps: int
    endings: dict[str, Ending]
    """By stage."""
    after: dict[str, Contents]
    """Of a folder, by the stage that was done last."""


TaskOf = Callable[[str, int], Task]


@pytest.fixture(scope="module")
def task_of(tmp_path_factory: pytest.TempPathFactory) -> TaskOf:
    """The task of an architecture and a number of steps."""
    corpus = tmp_path_factory.mktemp("corpus")
    write_reversal_task(corpus)

    @cache
    def task_of(kind: str, steps: int) -> Task:
        task = Task(corpus, kind, steps, {}, {})
        home = begin(task, tmp_path_factory.mktemp("finished") / "home")
        for stage, arguments in COMMANDS.items():
            task.endings[stage] = run(arguments, home)
            assert task.endings[stage].code == 0, said(home)
            task.after[stage] = contents(home)
        return task

    return task_of


def begin(task: Task, home: Path) -> Path:
    """A folder where nothing is done yet."""
    home.mkdir()
    config = tiny_config(task.corpus, task.kind, training=RICH | {"steps": task.steps})
    config = config.model_copy(update={"run": "run"})
    (home / "mtkit.yaml").write_text(dump_config(config), encoding="utf-8")
    lines = (task.corpus / "train.src").read_text(encoding="utf-8")
    (home / "in.txt").write_text(lines * 8, encoding="utf-8")
    return home


def kill_and_finish(
    stage: str, home: Path, moments: Iterable[Moment], task: Task, runner: Runner = run
) -> list[Kill]:
    """Runs a stage again and again, killed at `moments`, until it is done as in a clean run."""
    hits = list(kills(stage, home, moments, task.after["translate"], runner))
    assert_equal(contents(home), task.after[stage])
    return hits


def assert_equal(found: Contents, expected: Contents) -> None:
    """Names what differs; it is long."""
    assert sorted(found) == sorted(expected)
    assert [name for name in found if found[name] != expected[name]] == []


def test_commands_that_are_killed_end_as_if_nothing_had_happened(
    task_of: TaskOf, tmp_path: Path
) -> None:
    task = task_of("transformer", SAMPLE)
    home = begin(task, tmp_path / "home")
    shares = {"train-spm": [0.7], "batch": [0.5, 0.9], "translate": [0.7]}
    shares["train"] = [0.05, 0.13, 0.26, 0.17]
    for stage in COMMANDS:
        count = task.endings[stage].operations
        moments = [Moment(int(share * count)) for share in shares[stage]]
        assert len(kill_and_finish(stage, home, moments, task)) == len(moments)


def test_a_process_of_its_own_goes_on_where_it_was_killed_and_mends_the_metrics(
    task_of: TaskOf, tmp_path: Path
) -> None:
    task = task_of("transformer", SAMPLE)
    home = begin(task, tmp_path / "home")
    metrics = home / "run/metrics.jsonl"
    for stage in ("train-spm", "batch"):
        assert run(COMMANDS[stage], home).code == 0
    for step in (4, 12):
        with start(COMMANDS["train"], home, stderr=subprocess.DEVNULL) as process:
            wait_for((home / "run/checkpoints" / f"step-{step:08d}").exists)
            process.kill()
        assert process.returncode == -signal.SIGKILL
        with metrics.open("a", encoding="utf-8") as file:
            file.write('{"kind": "train", "st')
    kill_and_finish("train", home, [], task)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_training_that_is_told_to_stop_saves_and_says_so(
    number: int, code: int, task_of: TaskOf, tmp_path: Path
) -> None:
    task = task_of("transformer", SAMPLE)
    home = begin(task, tmp_path / "home")
    for stage in ("train-spm", "batch"):
        assert run(COMMANDS[stage], home).code == 0
    with start(COMMANDS["train"], home, stderr=subprocess.PIPE) as process:
        wait_for((home / "run/checkpoints/step-00000002").exists)
        process.send_signal(number)
        error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == code
    assert error.splitlines()[-1].startswith("training interrupted, checkpoint saved: run the same")
    assert "Traceback" not in error
    kill_and_finish("train", home, [], task)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_other_stages_that_are_told_to_stop_leave_what_was_there(
    number: int, code: int, task_of: TaskOf, tmp_path: Path
) -> None:
    task = task_of("transformer", SHORT)
    home = begin(task, tmp_path / "home")
    for arguments in COMMANDS.values():
        assert run(arguments, home).code == 0
    before = contents(home)
    large = tmp_path / "large"
    for side in ("src", "tgt"):
        lines = (task.corpus / f"train.{side}").read_text(encoding="utf-8")
        large.with_suffix(f".{side}").write_text(lines * 1000, encoding="utf-8")
    other = ["--set", f"data.train.source={large}.src", "--set", f"data.train.target={large}.tgt"]
    with start(["batch", *other], home, stderr=subprocess.PIPE) as batch:
        assert stopped(batch, number, home / "run/.batches.partial") == (code, "")
    translate = ["translate", "-o", TRANSLATION, "-m", "run"]
    with start(translate, home, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as endless:
        assert endless.stdin is not None
        endless.stdin.write(b"ant bee\n")
        endless.stdin.flush()
        assert stopped(endless, number, home / f".{TRANSLATION}.partial") == (code, "")
    assert_equal(contents(home), before)


def stopped(process: subprocess.Popen[bytes], number: int, partial: Path) -> tuple[int, str]:
    """Exit code, and what was said, of one that gets a signal when it has written to `partial`."""

    def has_written() -> bool:
        files = [partial] if partial.is_file() else partial.glob("*")
        return any(file.stat().st_size for file in files)

    wait_for(has_written)
    process.send_signal(number)
    assert process.stderr is not None
    said = process.stderr.read().decode()
    return process.wait(timeout=60), said


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


SHARE = {"train-spm": 1.0, "batch": 1.0, "train": 0.25, "translate": 1.0}
"""Of a stage, up to where it is killed: what training did before is not done again."""
KILLS = {"train-spm": 5, "batch": 5, "train": 15, "translate": 5}


@pytest.mark.campaign
@both
def test_campaign_of_random_moments(kind: str, task_of: TaskOf, tmp_path: Path) -> None:
    task, draw = task_of(kind, LONG), random.Random(kind)
    hits: list[Kill] = []
    for number in range(20):
        home = begin(task, tmp_path / f"{number}")
        for stage, ending in task.endings.items():
            moments = [random_moment(ending, SHARE[stage], draw) for _ in range(KILLS[stage])]
            hits += kill_and_finish(stage, home, moments, task)
        if len(hits) >= 110:
            break
    show(hits)
    assert len(hits) >= 110


def random_moment(ending: Ending, share: float, draw: random.Random) -> Moment:
    """By the clock, at a file operation, or within 3 ms after one began."""
    kind = draw.choice(["clock", "clock", "operation", "after"])
    if kind == "clock":
        return Moment(0, draw.uniform(0, share * ending.seconds))
    operation = draw.randint(1, max(1, int(share * ending.operations)))
    return Moment(operation, None if kind == "operation" else draw.uniform(0, 0.003))


@pytest.mark.campaign
def test_campaign_of_every_file_operation(task_of: TaskOf, tmp_path: Path) -> None:
    task = task_of("transformer", SHORT)
    done = begin(task, tmp_path / "done")
    hits: list[Kill] = []
    for stage, ending in task.endings.items():
        for operation in range(1, ending.operations + 1):
            home = shutil.copytree(done, tmp_path / f"{stage}-{operation}", symlinks=True)
            hits += kill_and_finish(stage, home, [Moment(operation)], task)
            shutil.rmtree(home)
        kill_and_finish(stage, done, [], task)
    show(hits)
    assert len(hits) == sum(ending.operations for ending in task.endings.values())


@pytest.mark.campaign
@both
def test_campaign_of_processes_of_their_own(kind: str, task_of: TaskOf, tmp_path: Path) -> None:
    task, draw = task_of(kind, LONG), random.Random(kind)
    whole = begin(task, tmp_path / "whole")
    seconds = {stage: run_alone(command, whole).seconds for stage, command in COMMANDS.items()}
    assert_equal(contents(whole), task.after["translate"])
    hits: list[Kill] = []
    for number in range(5):
        home = begin(task, tmp_path / f"{number}")
        for stage in COMMANDS:
            count = 3 if stage == "train" else 1
            moments = [Moment(0, draw.uniform(0.3, 0.9) * seconds[stage]) for _ in range(count)]
            hits += kill_and_finish(stage, home, moments, task, run_alone)
        if len(hits) >= 6:
            break
    show(hits)
    assert len(hits) >= 6


def show(hits: list[Kill]) -> None:
    print(f"{len(hits)} kills hit a running command")
    for (stage, place), count in sorted(Counter((k.stage, k.place) for k in hits).items()):
        print(f"{stage:10}  {place:16} {count:4}")
