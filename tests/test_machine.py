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


def test_the_quota_of_processor_time_is_read(tmp_path: Path) -> None:
    assert machine.cpu_quota(tmp_path) == math.inf
    for text, found in (("max 100000\n", math.inf), ("400000 200000\n", 2.0)):
        (tmp_path / "cpu.max").write_text(text)
        assert machine.cpu_quota(tmp_path) == found
