"""What a process may use of its machine."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from mtkit import machine


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


def test_a_quota_of_processor_time_is_read_in_both_of_its_forms(tmp_path: Path) -> None:
    assert machine.cpu_quota(tmp_path) == math.inf
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    older, newer = tmp_path / "cpu" / "cpu.cfs_quota_us", tmp_path / "cpu.max"
    for file, text, found in (
        (older, "-1\n", math.inf),
        (older, "150000\n", 1.5),
        (newer, "max 100000\n", math.inf),
        (newer, "400000 200000\n", 2.0),
    ):
        file.write_text(text)
        assert machine.cpu_quota(tmp_path) == found
