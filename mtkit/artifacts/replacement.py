"""Create, replace and delete artifacts, but never a file of the user.

mtkit deletes only files that the manifest of an artifact lists, and drafts: folders that it is
still filling. Every other file in the folder of an artifact belongs to the user, and moves to the
artifact that replaces it. A folder without a manifest belongs to the user, too, and stops the
command, unless it holds rows, which no other program writes.

An artifact is written to a draft next to it, which is renamed at the end. A process may be killed
at any moment. The next process then finds the old artifact, the new one or none, and tidies up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import (
    FORMAT_VERSIONS,
    MANIFEST,
    VERSION,
    Kind,
    hash_file,
    hashes_of,
    listed_files,
)
from mtkit.artifacts.storage import (
    first_free,
    path_in_oserror,
    read_json,
    sync,
    temporary_path,
    write_json,
)
from mtkit.errors import UserError
from mtkit.report import warn

DRAFT = ".draft"
"""A file in every draft, which shows that mtkit created the folder."""
TYPICAL_FILES: Mapping[Kind, Sequence[str]] = {
    "rows": ("place_rows",),
    "tokenizer": ("spm.model", "spm.source.model"),
    "range": ("encoded.npz",),
    "batches": ("train.lengths",),
    "checkpoint": ("optimizer.safetensors",),
    "model": ("model.safetensors",),
    "test": ("hypotheses.txt",),
    "export": ("model.bin", "model.safetensors"),
}
"""For each kind of artifact, files of which it has one: a damaged one is recognised by them."""


@contextmanager
def create(
    path: Path,
    kind: Kind,
    settings: Mapping[str, Any],
    inputs: Mapping[str, str],
    report: dict[str, Any] | None = None,
) -> Iterator[Path]:
    """Yield a folder, which becomes the artifact at `path` when the block ends.

    The folder holds only DRAFT. If the block raises, an older artifact at `path` stays. The block
    may add to `report`, which the manifest gets at the end.

    Raises:
        UserError: something that mtkit has not written is at `path` or next to it, or files of the
            user in an older artifact cannot move to the new artifact.
    """
    check_ownership(path, kind)
    _recover(path)
    draft = temporary_path(path)
    try:
        draft.mkdir(parents=True)
        # A process that is killed before this leaves an empty folder, which `_recover` deletes.
        (draft / DRAFT).touch()
        with path_in_oserror(path):
            yield draft
            files = _finish_files(draft)
            manifest = {
                "kind": kind,
                "format": FORMAT_VERSIONS[kind],
                "mtkit": VERSION,
                "settings": settings,
                "inputs": inputs,
                "files": files,
                "report": report or {},
            }
            write_json(draft / MANIFEST, manifest | hashes_of(manifest))
        _replace(path, draft)
    except BaseException:
        with suppress(OSError, UserError):  # keep the first error; the next process tidies up
            _recover(path)
        raise


def check_ownership(path: Path, kind: Kind) -> None:
    """Raise UserError if something that mtkit has not written is in the place of an artifact.

    The places of its draft and of its predecessor are checked, too. Empty folders do not count.
    """
    if not _is_vacant(path):
        is_folder = path.is_dir() and not path.is_symlink()
        if not is_folder or _belongs_to_others(path, kind):
            raise foreign_file_error(path)
    draft = temporary_path(path)
    if not (_is_vacant(draft) or _is_draft(draft) or _is_artifact(draft)):
        raise foreign_file_error(draft)
    old = _old_path(path)
    if not (_is_vacant(old) or _is_artifact(old)):
        raise foreign_file_error(old)


def foreign_file_error(path: Path) -> UserError:
    """Return the error about something of the user's in a place where mtkit would write."""
    return UserError(f"{path} was not written by mtkit; move it, or choose another directory")


def check_absent(output: Path) -> None:
    """Raise UserError if `output` exists."""
    if os.path.lexists(output):
        raise UserError(f"{output} already exists; choose a new folder")


def remove(path: Path) -> None:
    """Delete the files of an artifact, if there is one at `path`.

    Its folder is renamed if the user has put files there. A folder with a damaged manifest is
    renamed, too, because nobody can tell whose its files are.
    """
    _recover(path)
    if not os.path.lexists(path):
        return
    listed = listed_files(path)
    if listed is None:
        _set_aside(path)
        return
    # Renamed first, so that a killed process never leaves half an artifact.
    renamed = temporary_path(path)
    if _files_of_user(path, listed):
        # So that training can save this step again.
        renamed = first_free(path.with_name(f"{path.name}.kept"))
    path.rename(renamed)
    _delete_listed(renamed, listed)


def recover_all(folder: Path, names: str) -> None:
    """Finish or undo what killed processes have begun; `names`: pattern of the artifacts.

    Raises:
        UserError: something that mtkit has not written is named like a leftover.
    """
    for suffix in (".partial", ".old"):
        for leftover in folder.glob(f".{names}{suffix}"):
            name = leftover.name.removeprefix(".").removesuffix(suffix)
            _recover(folder / name)
            if os.path.lexists(leftover):
                raise foreign_file_error(leftover)


def _finish_files(draft: Path) -> dict[str, Any]:
    """Write the files of a draft to disk with the user's permissions.

    Return the entry of each file in the manifest, by its name.
    """
    permissions = draft.stat().st_mode & 0o666  # the mode of the folder follows the umask
    files: dict[str, Any] = {}
    for file in sorted(draft.iterdir()):
        if file.name == DRAFT:
            continue
        file.chmod(permissions)  # only the owner can read what safetensors writes
        sync(file)
        files[file.name] = {"bytes": file.stat().st_size, "sha256": hash_file(file)}
    return files


def _replace(path: Path, draft: Path) -> None:
    """Put a complete draft in the place of an artifact, and move the user's files to it.

    A process may be killed between any two of these steps; then `_recover` does the rest.

    Raises:
        UserError: files of the user cannot move to the draft. Nothing has changed then.
    """
    if os.path.lexists(path):
        listed = listed_files(path)
        if listed is None:
            _set_aside(path)
        else:
            _check_movable(path, draft, listed)
    (draft / DRAFT).unlink()  # from here on, the draft is an artifact
    old = _old_path(path)
    if os.path.lexists(path):
        path.rename(old)
    draft.rename(path)
    sync(path.parent)
    if os.path.lexists(old):
        _discard(old, successor=path)


def _check_movable(path: Path, draft: Path, listed: frozenset[str]) -> None:
    """Raise UserError if a file or folder of the user cannot move from `path` to the draft."""
    for name in _files_of_user(path, listed):
        file = path / name
        if os.path.lexists(draft / name):
            raise UserError(f"{file} was not written by mtkit, which would replace it; move it")
        # Moving a folder changes its entry "..".
        if file.is_dir() and not file.is_symlink() and not os.access(file, os.W_OK):
            raise UserError(f"{file} is write-protected, so it cannot move to the new {path}")


def _recover(path: Path) -> None:
    """Finish or undo what a killed process has begun at `path`; leave what it has not written."""
    draft, old = temporary_path(path), _old_path(path)
    if _is_artifact(old):
        if os.path.lexists(path):  # the process was killed after it had put the draft there
            _discard(old, successor=path)
        else:
            old.rename(path)
    if _is_draft(draft):
        _delete_draft(draft)
    else:
        # Without DRAFT it is a complete draft, or an artifact that `remove` was deleting.
        listed = listed_files(draft)
        if listed is not None:
            _delete_listed(draft, listed)
    for folder in (draft, old):
        if _is_empty_folder(folder):
            folder.rmdir()


def _discard(old: Path, *, successor: Path) -> None:
    """Delete the files of a replaced artifact; move the user's files to its successor.

    Raises:
        UserError: the successor has a file of the same name.
    """
    listed = listed_files(old) or frozenset()
    for name in _files_of_user(old, listed):
        if os.path.lexists(successor / name):
            raise UserError(f"{old / name} was not written by mtkit; move it, and delete {old}")
        (old / name).rename(successor / name)
    _delete_listed(old, listed)


def _delete_draft(draft: Path) -> None:
    """Delete a folder that mtkit was filling; DRAFT comes last, because it shows this."""
    for file in draft.iterdir():
        if file.name != DRAFT:
            file.unlink()
    (draft / DRAFT).unlink()
    draft.rmdir()


def _delete_listed(folder: Path, listed: frozenset[str]) -> None:
    """Delete the listed files of a folder, the manifest last; then the folder if it is empty."""
    # The names come from the folder: a forged manifest may list files outside of it.
    for file in folder.iterdir():
        is_folder = file.is_dir() and not file.is_symlink()
        if file.name in listed and file.name != MANIFEST and not is_folder:
            file.unlink()
    # Until here, a process that is killed leaves a folder that `listed_files` recognises.
    (folder / MANIFEST).unlink(missing_ok=True)
    if _is_empty_folder(folder):
        folder.rmdir()


def _files_of_user(folder: Path, listed: frozenset[str]) -> list[str]:
    """Return the names of the files and folders in an artifact that mtkit has not written."""
    names: list[str] = []
    for entry in sorted(folder.iterdir()):
        is_folder = entry.is_dir() and not entry.is_symlink()
        if entry.name not in listed or is_folder:  # artifacts contain no folders
            names.append(entry.name)
    return names


def _set_aside(path: Path) -> None:
    """Rename a folder with a damaged manifest, because nobody can tell whose its files are.

    Delete the folder if it is empty.
    """
    if _is_empty_folder(path):
        path.rmdir()
        return
    new_path = first_free(path.with_name(f"{path.name}.damaged"))
    path.rename(new_path)
    warn(f"{path / MANIFEST} is missing or damaged; the folder is now {new_path}")


def _belongs_to_others(folder: Path, kind: Kind) -> bool:
    """Return whether a folder has no manifest, or that of another program or kind of artifact.

    If the manifest cannot be read, the folder is mtkit's if it has one of TYPICAL_FILES. Rows need
    no manifest for that, because no other program writes such files.
    """
    try:
        content = read_json(folder / MANIFEST)
    except FileNotFoundError:
        return kind != "rows" or not _has_typical_file(folder, kind)
    except (OSError, UserError):  # damaged
        return not _has_typical_file(folder, kind)
    return not isinstance(content, dict) or content.get("kind") != kind


def _has_typical_file(folder: Path, kind: Kind) -> bool:
    return any((folder / name).is_file() for name in TYPICAL_FILES.get(kind, ()))


def _is_draft(path: Path) -> bool:
    """Return whether mtkit was filling the folder."""
    return (path / DRAFT).is_file() and not path.is_symlink()


def _is_artifact(path: Path) -> bool:
    """Return whether the folder has an undamaged manifest, of any kind."""
    return listed_files(path) is not None


def _is_vacant(path: Path) -> bool:
    """Return whether nothing is at `path`, or an empty folder."""
    return not os.path.lexists(path) or _is_empty_folder(path)


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _old_path(path: Path) -> Path:
    """Return the path of the old artifact while its successor takes its place."""
    return path.with_name(f".{path.name}.old")
