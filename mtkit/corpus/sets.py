"""The text of a run: each set of corpora in `data` is written once as rows, to `RUN/corpus/SET`.

All stages read these rows, and no other files. A set is up to date if its files are those that were
read: if size or times of a file have changed, its hash decides. A command decides this once, so all
its stages have the same text (`hold_sets`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import hash_file, open_artifact
from mtkit.artifacts.recipe import Recipe
from mtkit.artifacts.replacement import foreign_file_error
from mtkit.artifacts.runs import CORPUS, locked
from mtkit.artifacts.stage import Stage
from mtkit.config.corpora import Corpus
from mtkit.config.settings import Config, SetName
from mtkit.corpus.files import existing_file, listed_paths
from mtkit.corpus.read import Pair, hash_corpora, read_corpus, sides_of
from mtkit.corpus.store import CorpusRows, temporary_rows, write_rows
from mtkit.errors import UserError, blame_setting
from mtkit.machine import check_single_process
from mtkit.report import warn

FILE_FACTS = "files"
"""What the artifact of a set reports: the facts of each file, as in `_FileHashes`."""


@dataclass(frozen=True)
class _HeldSet:
    """A set that has been imported, and that the stages of a command use."""

    rows: CorpusRows
    files: _FileHashes
    """The hashes of its files when they were read."""
    hashes: Mapping[str, str]
    """The hashes of its text, by setting."""


_held: dict[tuple[str, SetName], _HeldSet] = {}
"""The sets that this process holds, by the run and the name."""


@contextmanager
def hold_sets(config: Config, *names: SetName) -> Iterator[dict[SetName, CorpusRows]]:
    """Import sets, yield the rows of all, and hold them until the block ends.

    Within the block, all functions of this module use the held text, even if its files change. If
    they do, say so at the end. A set that the config does not name is left out.

    Raises:
        SettingError: a file is missing, unreadable or empty, or the sides are not parallel.
        UserError: a file changes while it is read, or another process writes to the run.
    """
    named = [name for name in names if config.data.corpora(name)]
    missing = [name for name in named if (config.run, name) not in _held]
    for name in missing:  # all before any is read, which may take long
        for key, corpus in config.data.corpora(name).items():
            check_files_exist(corpus, key)
    try:
        # The training set comes first in `data`, and is the largest: errors in others are found
        # before.
        for name in reversed(missing):
            _held[config.run, name] = _import_set(config, name)
        yield {name: _held[config.run, name].rows for name in named}
        for name in missing:
            changed = _held[config.run, name].files.find_changed()
            if changed is not None:
                warn(f"{changed} has changed since it was read; rerun the command to use its text")
    finally:
        for name in missing:
            _held.pop((config.run, name), None)


@contextmanager
def open_set(config: Config, name: SetName) -> Iterator[CorpusRows]:
    """Yield the rows of a set that the config names, without writing to the run.

    If `RUN/corpus` does not have them, read the corpora.

    Raises:
        UserError: a corpus cannot be read.
    """
    held = _held.get((config.run, name))
    if held is not None:
        yield held.rows
        return
    stage, _ = _find_stage(config, name)
    artifact = stage.current()
    if artifact is not None:
        yield CorpusRows(artifact.path, _corpora_of(config, name))
        return
    with temporary_rows(_corpora_of(config, name)) as rows:
        yield rows


def hash_sets(config: Config, *names: SetName) -> dict[str, str]:
    """Return the hashes of the text of sets, by setting; a set that the config lacks has none.

    Only files that have changed since the sets were imported are read.

    Raises:
        UserError: a file cannot be read.
    """
    hashes: dict[str, str] = {}
    for name in names:
        held = _held.get((config.run, name))
        if held is not None:
            hashes |= held.hashes
        else:
            hashes |= _hash_set(config, name, _FileHashes(_read_recorded(config, name)))
    return hashes


def _hash_set(config: Config, name: SetName, files: _FileHashes) -> dict[str, str]:
    return hash_corpora(_corpora_of(config, name), f"data.{name}", files)


@dataclass
class _FileHashes:
    """Returns the hashes of files, always the same; reads only files that are new or changed."""

    recorded: Mapping[str, Any]
    """The size, times and hash of each file by its path, as `facts`."""
    facts: dict[str, list[Any]] = field(default_factory=dict)

    def __call__(self, file: Path) -> str:
        path = str(file)
        if path not in self.facts:
            state = _state_of(file)
            recorded = self.recorded.get(path)
            if not isinstance(recorded, list) or recorded[:-1] != state:
                recorded = [*state, hash_file(file)]
            self.facts[path] = recorded
        return str(self.facts[path][-1])

    def find_changed(self) -> str | None:
        """Return the path of a file that has another text than when its hash was asked for.

        Return None if there is no such file.
        """
        for path, (*state, digest) in self.facts.items():
            file = Path(path)
            if not file.exists() or (_state_of(file) != state and hash_file(file) != digest):
                return path
        return None


def _state_of(file: Path) -> list[int]:
    """Return the size of a file, and when its content and its status have changed."""
    # A program can set back when the content has changed, but not when the status has.
    status = file.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _corpora_of(config: Config, name: SetName) -> list[Corpus]:
    return list(config.data.corpora(name).values())


def _read_recorded(config: Config, name: SetName) -> Mapping[str, Any]:
    """Return the facts of the files that the artifact of a set was made from; empty without it."""
    with suppress(UserError):
        recorded = open_artifact(_path_of(config, name), "rows").report.get(FILE_FACTS)
        if isinstance(recorded, Mapping):
            return recorded
    return {}


def _path_of(config: Config, name: SetName) -> Path:
    return Path(config.run) / CORPUS / name


def _find_stage(config: Config, name: SetName) -> tuple[Stage, _FileHashes]:
    """Return the stage that writes the rows of a set, and the hashes of the files."""
    hashes = _FileHashes(_read_recorded(config, name))
    corpora = _corpora_of(config, name)
    # Tags are settings: a store need not be written anew for another tag.
    untagged = [corpus.model_copy(update={"tag": None, "target_tag": None}) for corpus in corpora]
    stage = Stage(
        kind="rows",
        path=_path_of(config, name),
        recipe=Recipe({"files": [sides_of(corpus) for corpus in corpora]}),
        inputs=hash_corpora(untagged, f"data.{name}", hashes),
    )
    return stage, hashes


def _import_set(config: Config, name: SetName) -> _HeldSet:
    stage, files = _find_stage(config, name)
    artifact = stage.current()
    if artifact is None:
        check_single_process()
        folder = stage.path.parent
        if folder.exists() and not folder.is_dir():
            raise foreign_file_error(folder)
        with locked(Path(config.run)), stage.write() as draft:
            write_rows(draft.folder, _read_set(config, name))
            changed = files.find_changed()
            if changed is not None:
                raise UserError(f"{changed} changed while it was read; run the same command again")
            draft.report[FILE_FACTS] = files.facts
        artifact = stage.open()
    return _HeldSet(
        rows=CorpusRows(artifact.path, _corpora_of(config, name)),
        files=files,
        hashes=_hash_set(config, name, files),
    )


def _read_set(config: Config, name: SetName) -> Iterator[Pair]:
    """Yield the pairs of a set; an error names the setting of the corpus."""
    for index, (key, corpus) in enumerate(config.data.corpora(name).items()):
        with blame_setting(key):
            yield from read_corpus(corpus, index)


def check_files_exist(corpus: Corpus, key: tuple[str | int, ...]) -> None:
    """Raise SettingError if a file of a corpus cannot be read; `key`: what names the corpus."""
    for name in ("source", "target", "table"):  # a corpus has some of these settings
        paths = getattr(corpus, name, None) or []
        with blame_setting((*key, name)):
            for path in listed_paths(paths):
                existing_file(path)
