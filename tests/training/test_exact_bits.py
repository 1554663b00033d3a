"""The same run is bitwise identical in every process, on processors of the same kind.

Else a run that was killed and resumed would end with other weights than one that was not. Of four
fresh processes one made other bits on processors with AMX, as long as the LSTM ran in bfloat16: the
campaign starts enough of them to see such a thing for certain (`make exact-test`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("first_step.py")
AT_ONCE = 4
"""Processes at the same time, so that threads wait for each other in other orders."""
WAYS = 2 * 3 * 2
"""Kinds of models, precisions, and numbers of threads."""


def first_steps(_: int) -> list[str]:
    """Return what a separate process prints, a line for each way to compute a first step."""
    # Threads that wait by spinning would take minutes where they are more than the cores.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    program = [sys.executable, str(PROGRAM)]
    ended = subprocess.run(program, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return ended.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, pytest.param(24, marks=pytest.mark.campaign)])
def test_a_first_step_is_bitwise_identical_in_every_process(processes: int) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        first, *others = pool.map(first_steps, range(processes))
    assert len(first) == WAYS
    assert all(other == first for other in others)
