"""Checks that the processes of a run have the same inputs and share the run directory.

Each process of a run reads inputs and checkpoints, but only the main process writes. Without these
checks, processes on machines that share no file system would train different models together.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mtkit.artifacts.manifest import Artifact, sha256_of
from mtkit.artifacts.runs import OWNER
from mtkit.artifacts.stage import Stage
from mtkit.errors import UserError
from mtkit.training.process_group import ProcessGroup

OWNER_SECONDS = 10.0
"""How long a process looks for a new file of another machine; network file systems have caches."""


def check_same_inputs(group: ProcessGroup, stage: Stage, model: Artifact | None) -> None:
    """Raise UserError unless all processes have the same inputs and settings.

    `model`: the artifact of the `stage`, if it is up to date.
    """
    settings = sha256_of(stage.recipe.resolved())
    identity = model.identity if model else None
    facts = {**stage.inputs, "settings": settings, "model": identity}
    check_same(group, stage.path.parent, facts)


def check_same(group: ProcessGroup, run: Path, facts: Mapping[str, str | None]) -> None:
    """Raise UserError in every process if one of the `facts` is not the same in all processes.

    `facts`: what to compare by its name in messages, such as "batches" and their identity.
    """
    main, *others = group.gather(dict(facts))
    for rank, other in enumerate(others, start=1):
        for name in [*main, *other]:  # a process may lack a fact
            if main.get(name) != other.get(name):
                raise UserError(
                    f"process {rank} does not have the same {name} as process 0; start all "
                    f"processes with the same config, and put {run} on a file system that all "
                    "machines share"
                )


def check_shared(group: ProcessGroup, run: Path) -> None:
    """Raise UserError in every process unless all see the lock that the main process holds."""
    # The main process holds the lock and has written the record, so all others must read the same.
    of_main, *_ = group.gather(_read_owner(run))
    if not of_main:  # without a record, all would agree on nothing
        raise UserError(
            f"{run / OWNER} cannot be read by the process that wrote it; put {run} on a file "
            "system that all machines share"
        )
    # A network file system may show a new file only after some seconds.
    deadline = time.monotonic() + OWNER_SECONDS
    while _read_owner(run) != of_main and time.monotonic() < deadline:
        time.sleep(0.1)
    check_same(group, run, {"run directory": _read_owner(run)})


def _read_owner(run: Path) -> str:
    """Return the record of the process that holds the lock of the run; "" if it cannot be read."""
    with suppress(OSError):
        os.listdir(run)  # so that a network file system asks its server for new names
    with suppress(OSError):
        return (run / OWNER).read_text("utf-8", "replace")
    return ""
