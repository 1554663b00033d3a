"""What a process may use of its machine."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from mtkit import machine
from mtkit.errors import UserError
from mtkit.machine import describe_load


def test_cores_are_those_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1000, 1001, 1002}, raising=False)
    monkeypatch.setattr(machine, "cpu_quota", lambda: math.inf)
    assert machine.count_cores() == 3
    monkeypatch.setattr(machine, "cpu_quota", lambda: 2.5)
    assert machine.count_cores() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert machine.count_cores() == 1
    monkeypatch.setattr(machine, "cpu_quota", lambda: 0.5)
    assert machine.count_cores() == 1


@pytest.mark.parametrize(
    ("load", "cores", "words"),
    [(1.9, 2, None), (2.0, 2, "load 2.0 on 2 cores"), (5.14, 1, "load 5.1 on 1 core")],
)
def test_a_machine_is_busy_if_every_core_is_in_use(
    load: float, cores: int, words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, 9.0, 9.0))
    monkeypatch.setattr("mtkit.machine.count_cores", lambda: cores)
    assert describe_load() == words


def test_the_quota_of_processor_time_is_read(tmp_path: Path) -> None:
    assert machine.cpu_quota(tmp_path) == math.inf
    for text, found in (("max 100000\n", math.inf), ("400000 200000\n", 2.0)):
        (tmp_path / "cpu.max").write_text(text)
        assert machine.cpu_quota(tmp_path) == found


def test_a_process_without_a_launcher_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": 1, "SLURM_NTASKS": 1, "RANK": 0, "LOCAL_RANK": 0}.items():
        assert machine.launcher_variable(name) == value
        monkeypatch.setenv(name, "")
        assert machine.launcher_variable(name) == value
        monkeypatch.setenv(name, "3")
        assert machine.launcher_variable(name) == 3


@pytest.mark.parametrize("value", ["abc", "-1", "1.5", "2(x3)", "٣", "99999999999999999999"])
@pytest.mark.parametrize("name", ["WORLD_SIZE", "SLURM_NTASKS", "RANK", "LOCAL_RANK"])
def test_a_variable_of_a_launcher_that_is_no_number_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError) as caught:
        machine.launcher_variable(name)
    assert str(caught.value).startswith(f"{name}: '{value}' is not a ")
    assert str(caught.value).endswith(f"; start training with torchrun, or unset {name}")


def test_there_are_no_zero_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "0")
    with pytest.raises(UserError, match="'0' is not a number of processes"):
        machine.launcher_variable("WORLD_SIZE")
