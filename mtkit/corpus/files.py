"""Lines of files that are read twice, streamed, plain or gzip.

Only a line feed ends a line. A line over 1 MiB is no sentence: it is read as an empty one, so that
memory is bounded whatever a file (or the few bytes of a .gz) unfolds to.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from io import BufferedReader
from pathlib import Path
from typing import Any

from mtkit.config.base import Paths
from mtkit.errors import UserError
from mtkit.report import warn

GZIP_MAGIC = b"\x1f\x8b"
NOT_READ = {
    b"BZh91AY&SY": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstandard",
    b"PK\x03\x04": "zip",
}
"""What files begin with that hold no text as they are."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_BYTES = 1 << 20
"""Number of bytes in a line, at most, its end included."""
DEMO = "demo:"
BLOCK = 1 << 20
GZIP_FAULTS = (EOFError, gzip.BadGzipFile, zlib.error)
_warn_once = cache(warn)  # a corpus is read several times


def existing(path: str) -> Path:
    """The file meant, which is there and can be read, more than once.

    `demo:NAME` is a file of the demo that travels with the package.
    """
    is_demo = path.startswith(DEMO)
    file = Path(str(files("mtkit.demo")), path.removeprefix(DEMO)) if is_demo else Path(path)
    try:
        if not file.exists():
            raise UserError(f"{path}: no such file{_counted_from(path)}")
        if file.is_dir():
            raise UserError(f"{path}: a folder, not a file")
        if not file.is_file():
            raise UserError(f"{path}: a pipe or device; a corpus is read twice: write it to a file")
        with file.open("rb"):
            return file
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error


def _counted_from(path: str) -> str:
    """What to know of a path that leads nowhere."""
    if path.startswith(DEMO) or Path(path).is_absolute():
        return ""
    return f": relative paths count from the current folder, {Path.cwd()}"


def read_lines(path: str) -> Iterator[str]:
    """Lines without their ends, plain or gzip.

    Invalid UTF-8 is replaced, and a line over LINE_BYTES is empty, with one warning of each.
    Raises UserError where the file cannot be read (again), or is a damaged gzip.
    """
    number = 0
    faults: dict[str, tuple[int, int]] = {}  # the first such line, and how many there are
    try:
        with opened(existing(path)) as file:
            for number, raw in enumerate(_raw_lines(file), 1):
                fault = ""
                if len(raw) > LINE_BYTES:
                    raw, fault = b"", "longer than 1 MiB, read as an empty line"
                if number == 1:
                    raw = raw.removeprefix(BYTE_ORDER_MARK)
                try:
                    line = raw.decode()
                except UnicodeDecodeError:
                    line, fault = raw.decode(errors="replace"), "invalid UTF-8 replaced"
                if fault:
                    first, count = faults.get(fault, (number, 0))
                    faults[fault] = first, count + 1
                yield line.rstrip("\r\n")
    except GZIP_FAULTS as error:
        raise damaged(path, error) from error
    for fault, (first, count) in faults.items():
        _warn_once(f"{path}:{first}: {fault} ({count:,} such lines in the file)")


def count_lines(path: str) -> int:
    """Number of lines that `read_lines` has; UserError as there."""
    try:
        with opened(existing(path)) as file:
            return lines_in(iter(partial(file.read1, BLOCK), b""))
    except GZIP_FAULTS as error:
        raise damaged(path, error) from error


def measured(file: Path) -> dict[str, Any]:
    """Hash and size of a file, and lines where it is plain text."""
    digest = sha256()

    def blocks() -> Iterator[bytes]:
        while block := stream.read(BLOCK):
            digest.update(block)
            yield block

    with file.open("rb") as stream:
        lines = lines_in(blocks())
        facts = {"bytes": stream.tell(), "sha256": digest.hexdigest()}
    return facts if file.suffix == ".gz" else facts | {"lines": lines}


def lines_in(blocks: Iterable[bytes]) -> int:
    """Number of lines of a text that comes in blocks; the last one needs no line feed."""
    lines, last = 0, b"\n"
    for block in blocks:
        lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")


def opened(path: Path) -> BufferedReader:
    """The file, or what it unfolds to where it is gzip, by its name or by its first bytes.

    A pipe or a device is taken as it is. Raises OSError, and UserError for what is compressed
    otherwise; to read it may raise GZIP_FAULTS.
    """
    if not path.is_file():
        return path.open("rb")
    with path.open("rb") as file:
        start = file.read(max(map(len, NOT_READ)))
    for magic, name in NOT_READ.items():
        if start.startswith(magic):
            raise UserError(f"{path}: compressed by {name}: unpack it, or compress it by gzip")
    is_zipped = path.suffix == ".gz" or start.startswith(GZIP_MAGIC)
    return BufferedReader(gzip.open(path)) if is_zipped else path.open("rb")


def damaged(path: str, fault: Exception) -> UserError:
    """What to say of a file with one of GZIP_FAULTS; read again to know the line that it is in."""
    number = 0
    with suppress(*GZIP_FAULTS), opened(Path(path)) as file:
        for number, _ in enumerate(_raw_lines(file), 1):  # noqa: B007
            pass
    return UserError(f"{path}:{number + 1}: gzip damaged or cut short ({fault}): get it anew")


def _raw_lines(file: BufferedReader) -> Iterator[bytes]:
    """Lines with their ends; of one over LINE_BYTES, just enough to tell that it is."""
    while raw := file.readline(LINE_BYTES + 1):
        yield raw
        while len(raw) > LINE_BYTES and not raw.endswith(b"\n"):
            raw = file.readline(LINE_BYTES + 1)


def listed_paths(paths: Paths) -> list[str]:
    return [paths] if isinstance(paths, str) else paths
