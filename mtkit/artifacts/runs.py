"""Find runs and their models; lock a run, so that only one process writes to it.

A file next to the lock describes the process, for error messages; it has no meaning unless the
lock is held.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit import plugins
from mtkit.artifacts.locks import LockHeldError, lock_path
from mtkit.artifacts.manifest import MANIFEST, Artifact, Kind, kind_at, open_artifact
from mtkit.artifacts.replacement import check_ownership, foreign_file_error
from mtkit.artifacts.storage import first_free, read_json, temporary_path, write_text
from mtkit.config.parse import LOCAL, parse_file
from mtkit.errors import UserError, blame_setting
from mtkit.report import printable, say, warn

if TYPE_CHECKING:  # translation reads no settings of training
    from mtkit.config.settings import Config

SETTINGS, METRICS_FILE = "config.yaml", "metrics.jsonl"
SETTINGS_HEADER = "# All settings of this run, written by mtkit.\n"
"""The first line of RUN/config.yaml."""
LOCK, OWNER = ".mtkit-lock", ".mtkit-owner"
"""The lock stays when it is released, and marks the folder as a run."""
CHECKPOINTS, INDEX = "checkpoints", "checkpoints.json"
CORPUS = "corpus"
"""The folder of the text of a run, with an artifact for each set of corpora."""
CHECKPOINT_NAMES = "step-*"
"""Pattern of the names of checkpoints, in the folder CHECKPOINTS."""
WEIGHTS = "model.safetensors"
INIT_FROM = ("training", "init_from")
STARTED_BY = "MTKIT_STARTED_BY"
"""Environment variable of a worker that describes the process that started it."""
STAGE_KINDS: tuple[Kind, ...] = ("tokenizer", "batches", "model", "test")
"""The artifacts of a run; the folder of each has the name of its kind."""
LATEST = Path("runs/latest")
"""A link to the run in this directory whose training began or resumed last."""


def config_of(run: Path) -> Config:
    """Return the settings of a run; UserError if there is no run."""
    from mtkit.config.yaml import load_saved_config

    if not (run / SETTINGS).is_file():
        raise UserError(f"{run} is not a run directory")
    return load_saved_config(run / SETTINGS)


def save_config(config: Config) -> None:
    """Write the resolved settings to RUN/config.yaml; the run must be locked."""
    from mtkit.config.yaml import dump_config

    write_text(Path(config.run) / SETTINGS, SETTINGS_HEADER + dump_config(config))


def check_run_folder(run: Path) -> None:
    """Raise UserError if a file or folder of the user has a name that mtkit writes in a run.

    A user may choose a folder of their own as the run directory, such as the current one. Once
    mtkit has marked it, plain files of these names belong to mtkit.
    """
    for kind in STAGE_KINDS:
        check_ownership(run / kind, kind)
    checkpoints = run / CHECKPOINTS
    if os.path.lexists(checkpoints) and not checkpoints.is_dir():
        raise foreign_file_error(checkpoints)
    for checkpoint in checkpoints.glob(CHECKPOINT_NAMES):
        if _step_of(checkpoint) is not None:
            check_ownership(checkpoint, "checkpoint")
    is_marked = is_run(run)
    for path in (run / SETTINGS, run / METRICS_FILE, checkpoints / INDEX):
        is_plain = path.is_file() and not path.is_symlink()
        is_ours = is_marked and is_plain
        if os.path.lexists(path) and not is_ours:
            raise foreign_file_error(path)


def is_run(folder: Path) -> bool:
    """Return whether mtkit has written to the folder as to a run.

    Its lock marks it; a copy without hidden files is recognised by its config.
    """
    if (folder / LOCK).is_file():
        return True
    config = folder / SETTINGS
    if config.is_symlink() or not config.is_file():
        return False
    return config.read_bytes().startswith(SETTINGS_HEADER.encode())


def unused_run(run: Path) -> Path:
    """Return the run directory itself if nothing is there, else run-2, run-3 or the next free one.

    After `run-2` comes `run-3`, not `run-2-2`.
    """
    name, _, number = run.name.rpartition("-")
    if number.isdecimal() and os.path.lexists(run.with_name(name or "-")):
        first = run.with_name(name)
    else:
        first = run
    return first_free(first) if os.path.lexists(run) else run


def default_run() -> Path:
    """Return the run of ./mtkit.yaml if it exists, else the latest run."""
    if LOCAL.exists():
        name = parse_file(LOCAL)[0].get("run")
        run = Path(str(name)).expanduser()
        if name and (run.is_dir() or not LATEST.exists()):
            return run
    return LATEST


def default_place() -> Path:
    """Return where commands find a model by default: $MTKIT_MODEL, else the default run."""
    place = os.environ.get("MTKIT_MODEL")
    return locate_model(place) if place else default_run()


def find_model(place: str | Path) -> Artifact:
    """Return the verified model of a run or model folder; UserError if there is none."""
    if not str(place):  # which would be the current folder
        raise UserError(_explain_missing_model(""))
    for folder in (Path(place, "model"), Path(place)):
        if (folder / MANIFEST).is_file():
            return open_artifact(folder, "model", verify=True)
    raise UserError(_explain_missing_model(str(place)))


def _explain_missing_model(place: str) -> str:
    """Say why there is no model at a place, and what to do."""
    run = Path(place)
    if not (place and (run / SETTINGS).is_file() and is_run(run)):
        where = place or "an empty name"
        return f"{where} holds no model; give a run or model, or train one with `mtkit run`"
    ways = [shlex.join(["mtkit", "run", "-c", str(run / SETTINGS)])]
    if checkpoint_steps(run / CHECKPOINTS):
        ways.append(shlex.join(["mtkit", "finish", place]))
    commands = " or ".join(f"`{command}`" for command in ways)
    return f"{place} is a run whose training has not ended, so it holds no model; use {commands}"


def find_base_model(place: str) -> Artifact:
    """Return the verified model at a place; one of another program is imported.

    Raises:
        UserError: there is no model, it is damaged or not supported, or the hub cannot be reached.
    """
    return find_model(locate_model(place) if place else place)


def locate_model(place: str | Path) -> Path:
    """Return the folder of the model at a place; one of another program is imported.

    `place`: a run or a model of mtkit, or what the action `import_place` imports: the folder of a
    model of another program, or OWNER/NAME of a model on the Hugging Face hub.
    """
    path = Path(place)
    if {kind_at(path), kind_at(path / "model")} & {"model", "checkpoint"}:
        return path
    import_place = plugins.find_action("import_place")
    imported = None if import_place is None else import_place(str(place))
    return imported or path


def find_best(path: str | Path | None) -> Artifact:
    """Return the verified model at `path`, or the best or newest checkpoint of an unfinished run.

    The default path is `default_place`.
    """
    place = Path(path) if path else default_place()
    if kind_at(place) == "checkpoint":
        return open_artifact(place, "checkpoint", verify=True)
    folder = place / CHECKPOINTS
    # A model without its manifest is damaged, not unfinished.
    has_model = (place / "model").exists() or (place / MANIFEST).is_file()
    if has_model or not (folder / INDEX).is_file():
        return find_model(place)
    index = read_known_steps(place)
    if "last" not in index:
        raise UserError(f"{folder / INDEX} is damaged; resume with `mtkit train`")
    best, last = index.get("best"), index["last"]
    name, step = "newest checkpoint", last
    checkpoint = None
    if best is not None:
        try:
            checkpoint = _open_checkpoint(folder, best)
            name, step = "best checkpoint so far", best
        except UserError as damage:
            warn(str(damage))
    if checkpoint is None:
        checkpoint = _open_checkpoint(folder, last)
    say(f"{place}: training is not finished, so the {name} of step {step:,} is used")
    return checkpoint


def read_known_steps(run: Path) -> dict[str, int]:
    """Return the steps in the index of checkpoints; empty if the index cannot be read."""
    try:
        index = read_json(run / CHECKPOINTS / INDEX)
    except (OSError, UserError):
        return {}
    steps = index.items() if isinstance(index, dict) else ()
    return {name: step for name, step in steps if type(step) is int}


def _open_checkpoint(folder: Path, step: int) -> Artifact:
    """Return a verified checkpoint; errors are as in `open_artifact`."""
    return open_artifact(checkpoint_at(folder, step), "checkpoint", verify=True)


def find_origin(config: Config, find: Callable[[str], Artifact] | None = None) -> Artifact | None:
    """Return the verified model that `training.init_from` names; None if it names no model.

    `find`: how to find it; by default as `find_imported_model`.

    Raises:
        SettingError: the model cannot be read, or belongs to the run that is to be trained.
    """
    place = config.training.init_from
    if place is None:
        return None
    find = find or find_imported_model
    with blame_setting(INIT_FROM):
        if leads_through_latest(place):
            raise UserError(
                f"{place}: {LATEST} will point to this run; give the path of the other run itself"
            )
        check_other_run(place, config.run)
        return find(place)


def leads_through_latest(place: str) -> bool:
    """Return whether a place is runs/latest, which the next run will move, or inside of it."""
    path = Path(place).absolute()
    latest = LATEST.absolute()
    return latest.is_symlink() and latest in (path, *path.parents)


def check_other_run(place: str, run: str) -> None:
    """Raise UserError if the model at `place` is that of the run which is to be trained."""
    # Links may lead from one path to the other, so the files themselves are compared.
    real_path = Path(os.path.realpath(place))
    real_run = Path(os.path.realpath(run))
    if real_run in (real_path, *real_path.parents):
        raise UserError(f"{place} is the model of this run itself; choose another run")


def name_of_origin(config: Config, origin: Artifact) -> str:
    """Return how messages name an origin: by its folder, or by where it was imported from."""
    is_imported = "origin" in origin.report
    return str(config.training.init_from if is_imported else origin.path)


def find_imported_model(place: str) -> Artifact:
    """Return the verified model of mtkit at a place, or what was imported from there."""
    path = Path(place)
    is_ours = "model" in (kind_at(path / "model"), kind_at(path))
    find_import = None if is_ours else plugins.find_action("find_import")
    imported = None if find_import is None else find_import(place)
    return find_model(imported or place)


def checkpoint_at(folder: Path, step: int) -> Path:
    """Return the path of the checkpoint of `step` in a folder of checkpoints."""
    return folder / f"step-{step:08d}"


def _step_of(checkpoint: Path) -> int | None:
    """Return the step in the name of a checkpoint; None for another name."""
    step = checkpoint.name.removeprefix("step-")
    return int(step) if step.isdecimal() else None


def checkpoint_steps(folder: Path) -> list[int]:
    """Return the steps of the complete checkpoints in a folder, in ascending order."""
    steps: list[int] = []
    for manifest in folder.glob(f"{CHECKPOINT_NAMES}/{MANIFEST}"):
        step = _step_of(manifest.parent)
        if step is not None:
            steps.append(step)
    return sorted(steps)


def link_latest(run: Path) -> None:
    """Make the run the default of commands, when there is no config."""
    link = temporary_path(LATEST)
    try:
        LATEST.parent.mkdir(exist_ok=True)
        if not _is_replaceable_link(LATEST):
            warn(f"{LATEST} is not a link to a run and was left unchanged; give the model with -m")
            return
        target = os.path.relpath(os.path.realpath(run), os.path.realpath(LATEST.parent))
        while not (LATEST.is_symlink() and os.readlink(LATEST) == target):
            with suppress(FileExistsError, FileNotFoundError):  # another run sets the link, too
                link.unlink(missing_ok=True)
                link.symlink_to(target)
                link.replace(LATEST)
    except OSError as error:
        with suppress(OSError):
            link.unlink(missing_ok=True)
        warn(f"{LATEST} cannot be written ({error.strerror}); give the model with -m {run}")


def _is_replaceable_link(path: Path) -> bool:
    """Return whether nothing is at `path`, or a link that leads to a run or nowhere."""
    if not os.path.lexists(path):
        return True
    if not path.is_symlink():
        return False
    leads_nowhere = not path.exists()  # also true of a link that leads in a circle
    return leads_nowhere or (path / SETTINGS).is_file()


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold the lock of a run while writing to it.

    Raises:
        UserError: another process holds the lock, or a file of the user is where mtkit would write.
    """
    check_run_folder(run)
    with ExitStack() as stack:
        try:
            run.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UserError(f"{run} is not a folder; choose another run directory") from None
        try:
            stack.enter_context(lock_path(run / LOCK))
        except LockHeldError as held:
            raise UserError(
                f"{run} is in use by {_read_owner(run)}; wait, stop it, or choose another run "
                f"directory{held.advice}"
            ) from None
        try:
            write_text(run / OWNER, os.environ.get(STARTED_BY) or this_process())
            yield
        finally:
            with suppress(OSError):  # the record has no meaning without the lock
                (run / OWNER).unlink()


def find_owner(run: Path) -> str | None:
    """Describe the process that holds the lock of a run; return None if no process holds it."""
    # A process that is killed leaves this record, but not the lock. Without the record, the lock is
    # not touched, so that no other process finds it held by this one.
    if not (run / OWNER).is_file():
        return None
    try:
        with lock_path(run / LOCK):
            return None
    except LockHeldError:
        return _read_owner(run)
    except OSError:  # this user may not write here, so the record is all that is known
        return _read_owner(run)


def _read_owner(run: Path) -> str:
    owner = ""
    with suppress(OSError):
        owner = (run / OWNER).read_text("utf-8", "replace")
    return owner or "another process"


def this_process() -> str:
    """Describe this process, so that a user can recognise and stop it."""
    command = printable(" ".join([Path(sys.argv[0]).name, *sys.argv[1:]]))
    since = datetime.now().isoformat(" ", "seconds")
    return f"process {os.getpid()} on {platform.node()} (`{command}`, since {since})"
