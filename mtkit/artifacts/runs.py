"""Where runs lie and what is current in them, and that one process at a time writes to one.

The lock is the operating system's and ends with its holder, however that one ends. Beside it lies a
record of the holder, for those who are refused; without the lock the record means nothing.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from stat import S_ISLNK
from typing import TYPE_CHECKING

from pydantic import ValidationError

from mtkit.artifacts.manifest import MANIFEST, Artifact, Kind, kind_at, open_artifact
from mtkit.artifacts.storage import read_json, write_json
from mtkit.config.base import Settings
from mtkit.errors import MtkitError, UserError, blame_setting
from mtkit.report import say, warn

if TYPE_CHECKING:  # to translate, no settings of training are read
    from mtkit.config.settings import Config

LOCK, OWNER = ".lock", ".owner.json"
CHECKPOINTS, INDEX = "checkpoints", "checkpoints.json"
WEIGHTS = "model.safetensors"
"""The file of weights in the folder of a model or of a checkpoint."""
INIT_FROM = ("training", "init_from")
STARTED_BY = "MTKIT_STARTED_BY"
"""The variable that tells a process, in JSON, which one started it as a part of itself."""
LATEST = Path("runs/latest")
"""A link that training makes: the last run of this directory."""


def default_place() -> Path:
    """Where a command looks that is told no place: $MTKIT_MODEL, else the last run trained here."""
    return Path(os.environ.get("MTKIT_MODEL") or LATEST)


def find_model(path: str | Path | None) -> Artifact:
    """The model in a run or a model folder, verified; None is the default place.

    Raises UserError without one, or where it is damaged.
    """
    place = Path(path) if path else default_place()
    for folder in (place / "model", place):
        if (folder / MANIFEST).is_file():
            return open_artifact(folder, "model", verify=True)
    another = "" if path else ", or name one with -m"
    raise UserError(f"{place}: no model there: train one with `mtkit train`{another}")


def find_origin(config: Config) -> Artifact | None:
    """The model that `training.init_from` names, verified; None where it names none.

    Raises SettingError without one, where it is damaged, and for this run's own, or the last run's.
    """
    if (place := config.training.init_from) is None:
        return None
    with blame_setting(INIT_FROM):
        refuse_own(place, config.run)
        return find_model(place)


def refuse_own(place: str, run: str) -> None:
    """UserError for what a run is to be made from itself, or from the last, which it will be."""
    here = Path(place).resolve()
    if Path(run).resolve() in (here, *here.parents):
        raise UserError(f"{place}: the model of this very run: name another run's")
    path, latest = Path(place).absolute(), LATEST.absolute()
    if latest.is_symlink() and latest in (path, *path.parents):
        last = os.path.relpath(latest.resolve())
        raise UserError(f"{place}: this run will be the last one itself: name that one, {last}")


def checkpoint_at(folder: Path, step: int) -> Path:
    """Where the checkpoint of `step` lies in a folder of checkpoints."""
    return folder / f"step-{step:08d}"


def checkpoint_steps(folder: Path) -> list[int]:
    """Steps of the complete checkpoints in a folder of them, oldest first."""
    found = (path.parent.name[5:] for path in folder.glob(f"step-*/{MANIFEST}"))
    return sorted(int(step) for step in found if step.isdecimal())


def find_best(path: str | Path | None) -> Artifact:
    """The model, as `find_model`, or a checkpoint that can be translated with, verified.

    Of a run that has no model yet it is the best checkpoint so far, which is said; the newest where
    nothing is validated. Raises UserError as `find_model`.
    """
    place = Path(path) if path else default_place()
    if kind_at(place) == "checkpoint":
        return open_artifact(place, "checkpoint", verify=True)
    folder = place / CHECKPOINTS
    # A model that has lost its manifest is damaged, and its run not unfinished.
    has_model = (place / "model").exists() or (place / MANIFEST).is_file()
    if has_model or not (folder / INDEX).is_file():
        return find_model(place)
    match read_json(folder / INDEX):
        case {"best": int(step), "last": int(last)}:
            which = "its best checkpoint so far"
        case {"best": None, "last": int(step) as last}:
            which = "its newest checkpoint, for want of a validation"
        case _:
            raise UserError(
                f"{folder / INDEX}: not as mtkit writes it: train on with `mtkit train`"
            )
    try:
        checkpoint = open_artifact(checkpoint_at(folder, step), "checkpoint", verify=True)
    except UserError as damage:
        if step == last:
            raise
        warn(f"{damage}: passed over")
        which, step = "its newest checkpoint", last
        checkpoint = open_artifact(checkpoint_at(folder, step), "checkpoint", verify=True)
    say(f"{place}: not finished: taking {which}, of step {step:,}")
    return checkpoint


def find_current(
    path: Path, kind: Kind, recipe: Settings, inputs: Mapping[str, str]
) -> Artifact | None:
    """The artifact at `path` if it is what is asked for, and undamaged; else None.

    A setting that its manifest does not name, perhaps because there was none, has its default.
    """
    try:
        artifact = open_artifact(path, kind, verify=True)
        recorded = type(recipe).model_validate(artifact.manifest["settings"])
    except (UserError, ValidationError):
        return None
    return artifact if (recorded, artifact.manifest["inputs"]) == (recipe, dict(inputs)) else None


def link_latest(run: Path) -> None:
    """Names the run as the one that `mtkit translate` takes by default in this directory."""
    try:
        LATEST.parent.mkdir(exist_ok=True)
        while True:  # another run, which begins as well, may come between
            with suppress(FileNotFoundError):
                if LATEST.resolve() == run.resolve():
                    return
                if not S_ISLNK(LATEST.lstat().st_mode):
                    warn(f"{LATEST} is no symlink: left alone; name the model with -m")
                    return
                LATEST.unlink()
            with suppress(FileExistsError):
                LATEST.symlink_to(os.path.relpath(run, LATEST.parent))
                return
    except OSError as error:
        warn(f"{LATEST}: cannot be written ({error.strerror}): name the model with -m {run}")


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Around all that writes to `run`, once per process: a lock within a lock is refused, too.

    Raises UserError naming the process that is at work there, or where `run` cannot be a folder,
    MtkitError where it cannot be written.
    """
    from filelock import FileLock, Timeout  # which imports asyncio: not for who only translates

    lock = FileLock(run / LOCK)
    try:
        run.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        raise UserError(
            f"{run}: {_owner(run)} is writing there: wait for it, stop it, or choose another "
            "folder with --run"
        ) from None
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{run}: cannot be a folder: choose another with --run") from None
    except OSError as error:
        raise MtkitError(
            f"{run}: cannot write a run there ({error.strerror}): choose another folder with --run"
        ) from None
    try:
        owner = json.loads(os.environ.get(STARTED_BY, "null")) or this_process()
        write_json(run / OWNER, owner)
        yield
    finally:
        with suppress(OSError):  # without the lock it means nothing
            (run / OWNER).unlink()
        lock.release()


def this_process() -> dict[str, str | int]:
    """What people know a process by, and can stop it by."""
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "since": datetime.now().isoformat(" ", "seconds"),
    }


def _owner(run: Path) -> str:
    try:
        owner = read_json(run / OWNER)
        return "process {pid} on {host} (`{command}`, since {since})".format(**owner)
    except (OSError, UserError, KeyError, TypeError, ValueError):  # it may be about to write it
        return "another process"
