"""Several text files that appear together, whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TextIO

from mtkit.artifacts.storage import path_in_oserror, sync, temporary_path
from mtkit.errors import UserError


def refuse_to_overwrite(paths: Iterable[Path], read: Iterable[Path], *, force: bool) -> None:
    """UserError for the first of `paths` that is there already; with `force`, and is no file.

    What is `read` is never replaced. Nor is any work done for what could not be written, or named
    in a config.
    """
    kept = {path.resolve() for path in read}
    for path in paths:
        if path.is_dir() or any(parent.is_file() for parent in path.parents):
            raise UserError(f"{path}: cannot be a file there: name another with -o")
        if path.resolve() in kept:
            raise UserError(f"{path}: is what was to be read: name another with -o")
        if not force and (path.exists() or path.is_symlink()):
            raise UserError(f"{path}: is there already: give --force to replace it, or another -o")
        try:
            str(path).encode()
            with TemporaryFile(dir=next(folder for folder in path.parents if folder.exists())):
                pass
        except (UnicodeEncodeError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else "a name that is no UTF-8"
            raise UserError(f"{path}: cannot be written ({reason}): name another with -o") from None


@contextmanager
def written_together(paths: Iterable[Path]) -> Iterator[dict[Path, TextIO]]:
    """Yields an open file for each path; what was there is replaced when the block has ended.

    If it fails, all is as it was before, folders too. Raises OSError naming a file.
    """
    paths = list(paths)
    made: list[Path] = []
    try:
        for folder in dict.fromkeys(path.parent for path in paths):
            made += _make(folder)
        with path_in_oserror(paths[-1].parent), ExitStack() as stack:
            yield {
                path: stack.enter_context(
                    temporary_path(path).open("w", encoding="utf-8", newline="\n")
                )
                for path in paths
            }
        for path in paths:
            sync(temporary_path(path))
        for path in paths:
            temporary_path(path).replace(path)
    except BaseException:
        for path in paths:
            temporary_path(path).unlink(missing_ok=True)
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        raise


def _make(folder: Path) -> list[Path]:
    """Makes the folder and those above it; returns those that were not there, outermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()][::-1]
    folder.mkdir(parents=True, exist_ok=True)
    return missing
