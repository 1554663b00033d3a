"""Read lines of text files, plain or gzip, as a stream.

Only a line feed ends a line. A line over 1 MiB is not a sentence and is read as a blank one, so
that memory stays bounded whatever a file contains or decompresses to.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from io import BufferedReader
from pathlib import Path
from typing import Any

from mtkit.config.base import Paths
from mtkit.errors import UserError
from mtkit.report import plural, warn

GZIP_MAGIC = b"\x1f\x8b"
UNSUPPORTED_FORMATS = {
    b"BZh91AY&SY": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstandard",
    b"PK\x03\x04": "zip",
}
"""Compressed formats that are refused, by the first bytes of their files."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 1 << 20
"""Size of a line, line feed included, above which it is read as blank."""
DEMO = "demo:"
"""Prefix of the files of the demo corpus, which are part of the package."""
READ_BYTES = 1 << 20
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
_warn_once = cache(warn)  # a corpus is read several times


def existing_file(path: str) -> Path:
    """Return a file that exists and can be read more than once.

    Raises:
        UserError: it cannot.
    """
    is_demo = path.startswith(DEMO)
    file = Path(str(files("mtkit.demo")), path.removeprefix(DEMO)) if is_demo else Path(path)
    try:
        if not file.exists():
            is_relative = not (is_demo or file.is_absolute())
            hint = f"; relative paths start in the current folder, {Path.cwd()}"
            raise UserError(f"{path}: no such file{hint if is_relative else ''}")
        if file.is_dir():
            raise UserError(f"{path} is a folder; give a file")
        if not file.is_file():
            raise UserError(
                f"{path} is a pipe or device, but a corpus is read twice; write it to a file"
            )
        with file.open("rb"):
            return file
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from error


def read_lines(path: str) -> Generator[str]:
    """Yield the lines of a file, without line ends.

    Invalid UTF-8 is replaced, and a line over MAX_LINE_BYTES is blank; each is warned of once.

    Raises:
        UserError: the file cannot be read, or the gzip data is damaged.
    """
    number = 0
    faults: dict[str, tuple[int, int]] = {}  # the first line with each fault, and their number
    try:
        with open_decompressed(existing_file(path)) as file:
            for number, raw in enumerate(_raw_lines(file), 1):
                fault = ""
                if len(raw) > MAX_LINE_BYTES:
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
    except GZIP_ERRORS as error:
        raise describe_gzip_error(path, error) from error
    for fault, (first, count) in faults.items():
        _warn_once(f"{path}:{first}: {fault} ({plural(count, 'such line')} in the file)")


def count_lines(path: str) -> int:
    """Return the number of lines that `read_lines` yields; raise the same errors."""
    try:
        with open_decompressed(existing_file(path)) as file:
            return _count(iter(partial(file.read1, READ_BYTES), b""))
    except GZIP_ERRORS as error:
        raise describe_gzip_error(path, error) from error


def describe_file(file: Path) -> dict[str, Any]:
    """Return the `bytes` and `sha256` of a file, and its `lines` if it is plain text."""
    digest = sha256()

    def blocks() -> Iterator[bytes]:
        while block := stream.read(READ_BYTES):
            digest.update(block)
            yield block

    with file.open("rb") as stream:
        lines = _count(blocks())
        description = {"bytes": stream.tell(), "sha256": digest.hexdigest()}
    return description if file.suffix == ".gz" else description | {"lines": lines}


def _count(blocks: Iterable[bytes]) -> int:
    """Count the lines of a text that comes in blocks; the last one needs no line feed."""
    lines, last = 0, b"\n"
    for block in blocks:
        lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")


def open_decompressed(path: Path) -> BufferedReader:
    """Open a file, decompressing gzip, which its name or first bytes show.

    Pipes and devices are opened as they are. Reading may raise GZIP_ERRORS.

    Raises:
        OSError: the file cannot be opened.
        UserError: it is compressed in another format.
    """
    if not path.is_file():
        return path.open("rb")
    with path.open("rb") as file:
        start = file.read(max(map(len, UNSUPPORTED_FORMATS)))
    for magic, name in UNSUPPORTED_FORMATS.items():
        if start.startswith(magic):
            raise UserError(
                f"{path} is compressed with {name}; unpack it, or compress it with gzip"
            )
    is_gzip = path.suffix == ".gz" or start.startswith(GZIP_MAGIC)
    return BufferedReader(gzip.open(path)) if is_gzip else path.open("rb")


def describe_gzip_error(path: str, error: Exception) -> UserError:
    """Return an error that names the line, for one of GZIP_ERRORS in a file."""
    number = 0
    with suppress(*GZIP_ERRORS), open_decompressed(Path(path)) as file:
        for number, _ in enumerate(_raw_lines(file), 1):  # noqa: B007
            pass
    return UserError(
        f"{path}:{number + 1}: the gzip data is damaged or cut short ({error}); get another copy"
    )


def _raw_lines(file: BufferedReader) -> Iterator[bytes]:
    """Yield lines with their ends; of one over MAX_LINE_BYTES only the first bytes."""
    while raw := file.readline(MAX_LINE_BYTES + 1):
        yield raw
        while len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
            raw = file.readline(MAX_LINE_BYTES + 1)


def listed_paths(paths: Paths) -> list[str]:
    """Return one path or several as a list."""
    return [paths] if isinstance(paths, str) else paths
