"""After any kill, the same command again ends like an uninterrupted one.

The campaign takes minutes: `pytest -m campaign -rP` runs it and shows what the kills hit.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from crashes import (
    COMMANDS,
    VICTIMS,
    Contents,
    Ending,
    Kill,
    Moment,
    Runner,
    check_artifacts,
    contents,
    kills,
    output_of,
    run,
    run_alone,
    run_parallel,
)
from mtkit.config.yaml import dump_config
from tasks import tiny_config, write_reversal_task

pytestmark = pytest.mark.slow
stop_signals = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
both = pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
RICH = {
    "accumulate": 2,
    "schedule": {"kind": "plateau", "peak": 0.01, "patience": 1},
    "log_every": 3,
    "validate_every": 6,
    "save_every": 2,
    "keep": 2,
    "average": 3,
    "best_by": "loss",
}
SHORT, SAMPLE, LONG = 4, 20, 60
"""Numbers of steps."""
OTHERWISE = {
    "train-spm": ["--set", "seed=2"],
    "batch": ["--set", "batching.max_length=4"],
    "translate": ["--beam", "1"],
}
"""Options that make a complete stage stale."""


@dataclass(frozen=True)
class Task:
    """A corpus and a config, with the results of stages that were not killed."""

    corpus: Path
    kind: str
    steps: int
    endings: dict[str, Ending]
    """By stage."""
    folders: dict[str, Path]
    """The folder after each stage."""

    def after(self, stage: str) -> Contents:
        return contents(self.folders[stage])


TaskOf = Callable[[str, int], Task]


@pytest.fixture(scope="module")
def task_of(tmp_path_factory: pytest.TempPathFactory) -> TaskOf:
    """Return the task of an architecture and a number of steps."""
    corpus = tmp_path_factory.mktemp("corpus")
    write_reversal_task(corpus)

    @cache
    def task_of(kind: str, steps: int) -> Task:
        task = Task(corpus, kind, steps, {}, {})
        home = begin(task, tmp_path_factory.mktemp("finished") / "home")
        for stage, arguments in COMMANDS.items():
            task.endings[stage] = run(arguments, home)
            assert task.endings[stage].code == 0, output_of(home)
            task.folders[stage] = shutil.copytree(home, home.with_name(stage), symlinks=True)
        return task

    return task_of


def begin(task: Task, home: Path) -> Path:
    """Make a folder in which no stage has run."""
    home.mkdir()
    config = tiny_config(task.corpus, task.kind, training=RICH | {"steps": task.steps})
    config = config.model_copy(update={"run": "run"})
    (home / "mtkit.yaml").write_text(dump_config(config), encoding="utf-8")
    lines = (task.corpus / "train.src").read_text(encoding="utf-8")
    (home / "in.txt").write_text(lines * 8, encoding="utf-8")
    return home


def copy_after(stage: str, task: Task, folder: Path) -> Path:
    """Return a copy of the folder after that stage."""
    return shutil.copytree(task.folders[stage], folder / "home", symlinks=True)


def kill_and_finish(
    stage: str, home: Path, moments: Iterable[Moment], task: Task, runner: Runner = run
) -> list[Kill]:
    """Run a stage until it completes as in a clean run, killed at `moments` before that."""
    hits = list(kills(stage, home, moments, task.after("translate"), runner))
    assert_equal(contents(home), task.after(stage))
    return hits


def assert_equal(actual: Contents, expected: Contents) -> None:
    """Compare file by file, for short messages."""
    assert sorted(actual) == sorted(expected)
    assert [name for name in actual if actual[name] != expected[name]] == []


def test_killed_commands_end_like_uninterrupted_ones(task_of: TaskOf, tmp_path: Path) -> None:
    task = task_of("transformer", SAMPLE)
    home = begin(task, tmp_path / "home")
    shares = {"train-spm": [0.2, 0.6, 0.5], "batch": [0.5, 0.9], "translate": [0.7]}
    shares["train"] = [0.05, 0.13, 0.26, 0.17]
    for stage in COMMANDS:
        count = task.endings[stage].operations
        moments = [Moment(int(share * count)) for share in shares[stage]]
        assert len(kill_and_finish(stage, home, moments, task)) == len(moments)


def test_a_killed_process_resumes_and_repairs_the_metrics(task_of: TaskOf, tmp_path: Path) -> None:
    task = task_of("transformer", SAMPLE)
    home = copy_after("batch", task, tmp_path)
    middle = Moment(task.endings["train"].operations // 2)
    assert run_alone(COMMANDS["train"], home, middle).code == -signal.SIGKILL
    with (home / "run/metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind": "train", "st')
    kill_and_finish("train", home, [], task, run_alone)


@stop_signals
def test_a_stop_signal_in_training_saves_a_checkpoint(
    number: int, code: int, task_of: TaskOf, tmp_path: Path
) -> None:
    task = task_of("transformer", SAMPLE)
    home = copy_after("batch", task, tmp_path)
    middle = Moment(task.endings["train"].operations // 2, signal=number)
    assert run(COMMANDS["train"], home, middle).code == code
    last = output_of(home).splitlines()[-1]
    assert last.startswith("training was interrupted")
    assert "Traceback" not in output_of(home)
    kill_and_finish("train", home, [], task)


@stop_signals
def test_a_stop_signal_in_other_stages_keeps_their_artifacts(
    number: int, code: int, task_of: TaskOf, tmp_path: Path
) -> None:
    task = task_of("transformer", SHORT)
    home = copy_after("translate", task, tmp_path)
    before = contents(home)
    for stage, other in OTHERWISE.items():
        elsewhere = shutil.copytree(home, tmp_path / stage, symlinks=True)
        whole = run([*COMMANDS[stage], *other], elsewhere)
        middle = Moment(whole.operations // 2, signal=number)
        assert run([*COMMANDS[stage], *other], home, middle).code == code, output_of(home)
        there = contents(home)  # a translation also leaves its partial output
        assert_equal({name: there.get(name) for name in before}, before)
    assert "Traceback" not in output_of(home)


@stop_signals
def test_a_translation_waiting_for_input_can_be_stopped(
    number: int, code: int, task_of: TaskOf, tmp_path: Path
) -> None:
    home = copy_after("translate", task_of("transformer", SHORT), tmp_path)
    command = [sys.executable, "-m", "mtkit", "translate", "-m", "run"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=home, stdin=pipe, stdout=pipe, stderr=pipe) as endless:
        assert endless.stdin is not None and endless.stdout is not None
        endless.stdin.write(b"ant bee\n")
        endless.stdin.flush()
        assert endless.stdout.readline()
        endless.send_signal(number)
        endless.send_signal(number)  # as `timeout` does: on the way out it changes nothing
        rest, said = endless.communicate()
        assert rest == b""
        assert re.fullmatch(rb"translating with run/model \([\d,]+ steps\), .*\n", said)
    assert endless.returncode == code


def test_nohup_ignores_a_closed_terminal(task_of: TaskOf, tmp_path: Path) -> None:
    home = copy_after("translate", task_of("transformer", SHORT), tmp_path)
    command = ["nohup", sys.executable, "-m", "mtkit", "translate", "-m", "run", "-q"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=home, stdin=pipe, stdout=pipe, stderr=pipe) as left:
        assert left.stdin is not None and left.stdout is not None
        for line in (b"ant bee\n", b"bee ant\n"):
            left.stdin.write(line)
            left.stdin.flush()
            assert left.stdout.readline()
            left.send_signal(signal.SIGHUP)
        left.communicate()
    assert left.returncode == 0


SHARE = {"train-spm": 1.0, "batch": 1.0, "train": 0.25, "translate": 1.0}
"""Share of a stage in which it is killed; training does not repeat what it did before."""
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
    """Draw a time, a file operation, or a time within 3 ms after one."""
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
def test_campaign_of_separate_processes(kind: str, task_of: TaskOf, tmp_path: Path) -> None:
    task, draw = task_of(kind, LONG), random.Random(kind)
    hits: list[Kill] = []
    for number in range(2):
        home = begin(task, tmp_path / f"{number}")
        for stage, ending in task.endings.items():
            moments = [Moment(draw.randint(1, int(0.8 * ending.operations)))]
            hits += kill_and_finish(stage, home, moments, task, run_alone)
    show(hits)
    assert len(hits) == 2 * len(COMMANDS)


@pytest.mark.campaign
def test_campaign_of_parallel_processes(task_of: TaskOf, tmp_path: Path) -> None:
    task, draw = task_of("transformer", LONG), random.Random(1)
    command = [*COMMANDS["train"], "--set", "training.ranks=2"]
    whole = shutil.copytree(task.folders["batch"], tmp_path / "whole", symlinks=True)
    assert run_parallel(command, whole) == 0, output_of(whole)
    hits: Counter[str] = Counter()
    for number in range(10):
        home = shutil.copytree(task.folders["batch"], tmp_path / f"{number}", symlinks=True)
        for step in sorted(draw.sample(range(LONG), 3)):
            victim = draw.choice(VICTIMS)
            hits[victim] += run_parallel(command, home, victim, step) != 0
            check_artifacts(home, task.after("translate"))
        assert run_parallel(command, home) == 0, output_of(home)
        assert_equal(contents(home), contents(whole))
    print(f"of {hits.total()} kills that hit a run of two processes: {dict(hits)}")
    assert hits.total() >= 20


def show(hits: list[Kill]) -> None:
    print(f"{len(hits)} kills hit a running command")
    for (stage, place), count in sorted(Counter((k.stage, k.place) for k in hits).items()):
        print(f"{stage:10}  {place:16} {count:4}")
