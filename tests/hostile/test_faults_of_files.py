"""After a file operation that failed, the same command again ends as if it had not failed.

The campaign fails every operation of a tiny run: `pytest -m campaign -rP` shows how many.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from crashes import COMMANDS, OUTPUT, Contents, check_artifacts, contents, output_of
from faults import REASONS, Fault, FaultyEnding, run_with_fault
from mtkit.config.yaml import dump_config
from tasks import tiny_config, write_reversal_task

pytestmark = pytest.mark.slow

STAGES = COMMANDS | {"run": ["run"]}
"""The four stages, then the translation and the scores of the test set."""
TRAINING = {"steps": 4, "log_every": 2, "validate_every": 2, "save_every": 1, "keep": 1}
LATEST = ("runs", "runs/latest")
"""The link to the last run, without which a run is complete."""


@dataclass(frozen=True)
class FinishedRun:
    """A run in which nothing failed."""

    before: dict[str, Path]
    """By stage, the folder before it."""
    after: dict[str, Contents]
    operations: dict[str, FaultyEnding]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    folder = tmp_path_factory.mktemp("finished")
    write_reversal_task(folder)
    config = tiny_config(folder, "transformer", training=TRAINING)
    home = folder / "home"
    home.mkdir()
    text = dump_config(config.model_copy(update={"run": "run"}))
    (home / "mtkit.yaml").write_text(text, encoding="utf-8")
    shutil.copyfile(folder / "train.src", home / "in.txt")
    run = FinishedRun({}, {}, {})
    for stage, command in STAGES.items():
        run.before[stage] = shutil.copytree(home, folder / f"before {stage}", symlinks=True)
        (run.before[stage] / OUTPUT).unlink(missing_ok=True)
        run.operations[stage] = run_with_fault(command, home, None)
        assert run.operations[stage].code == 0, output_of(home)
        run.after[stage] = contents(home)
    return run


def check_end_after_fault(stage: str, fault: Fault, run: FinishedRun, folder: Path) -> str:
    """Run a stage with a fault, then again without; return the kind of the operation that failed.

    Both must end as they should: with an error of one line, and with the results of `run`.
    """
    home = shutil.copytree(run.before[stage], folder / "home", symlinks=True)
    ending = run_with_fault(STAGES[stage], home, fault)
    lines = output_of(home).splitlines()
    kind = ending.operations[fault.operation]
    where = f"{stage}: operation {fault.operation} ({kind}): {lines}"
    assert not any("Traceback" in line or "internal error" in line for line in lines), where
    assert ending.code in (0, 1, 2), where
    check_artifacts(home, run.after["run"])
    again = run_with_fault(STAGES[stage], home, None)
    assert again.code == 0, output_of(home)
    found = contents(home)
    expected = dict(run.after[stage])
    if ending.code == 0:  # the user was told that the link is missing
        assert any(line.startswith("warning") for line in lines) or found == expected, where
        for name in LATEST:
            if name in expected:
                found.setdefault(name, expected[name])
    assert sorted(found) == sorted(expected), where
    assert [name for name in found if found[name] != expected[name]] == [], where
    shutil.rmtree(home)
    return kind


def one_of_each_kind(stage: str, operations: Iterable[str]) -> list[Fault]:
    """Draw an operation of each kind."""
    draw = random.Random(stage)
    numbers: dict[str, list[int]] = {}
    for number, kind in enumerate(operations):
        numbers.setdefault(kind, []).append(number)
    return [Fault(draw.choice(numbers[kind])) for kind in REASONS if kind in numbers]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_with_a_fault_ends_like_one_without(
    stage: str, finished: FinishedRun, tmp_path: Path
) -> None:
    operations = finished.operations[stage].operations
    full_disk = Fault(len(operations) // 2, is_lasting=True)
    for fault in (*one_of_each_kind(stage, operations), full_disk):
        check_end_after_fault(stage, fault, finished, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("stage", STAGES)
def test_campaign_of_faults_of_every_operation(
    stage: str, is_lasting: bool, finished: FinishedRun, tmp_path: Path
) -> None:
    hits: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(len(finished.operations[stage].operations)):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        try:
            hits[check_end_after_fault(stage, Fault(number, is_lasting), finished, folder)] += 1
        except AssertionError as error:
            wrong.append(str(error))
    print(f"{stage}: {hits.total()} operations failed, by kind: {dict(hits)}")
    assert wrong == [], "\n".join(wrong)
