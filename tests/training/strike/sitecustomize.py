"""Imported by every Python that has this folder on its path: a signal in the midst of training.

The first rank sends it to the processes in STRIKE_VICTIMS when it is about to give a checkpoint its
name, STRIKE_STEP. That is an event of Python's own, which comes before what it tells of.
"""

import os
import sys
from pathlib import Path
from typing import Any


def workers_of(launcher: int) -> set[int]:
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_text() for child in children}
    return {child for child, command in commands.items() if "mtkit.training.worker" in command}


def _strike(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "os.rename" and str(arguments[1]).endswith(os.environ["STRIKE_STEP"]):
        launcher, first = os.getppid(), os.getpid()
        (second,) = workers_of(launcher) - {first}
        victims = {"launcher": launcher, "first": first, "second": second}
        for name in os.environ["STRIKE_VICTIMS"].split():
            os.kill(victims[name], int(os.environ["STRIKE_SIGNAL"]))


if "STRIKE_STEP" in os.environ:
    sys.addaudithook(_strike)
