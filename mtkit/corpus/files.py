"""Read lines of text files as a stream: UTF-8, or UTF-16 with a byte order mark, plain or gzip.

Only a line feed ends a line. A line over 1 MiB is not a sentence; it is read as a blank line, so
that memory stays bounded whatever a file contains, even after decompression.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import select
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib.resources import files
from itertools import chain
from pathlib import Path, PurePath
from typing import cast

from mtkit.config.base import Paths
from mtkit.errors import MtkitError, UserError
from mtkit.report import plural, warn

GZIP_MAGIC = b"\x1f\x8b"
ENCODINGS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark begins with the same bytes
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings other than UTF-8, by the byte order mark at the start of the text."""
COMPRESSED = {
    ".bz2": rb"BZh[1-9](1AY&SY|\x17rE8P)",
    ".xz": rb"\xfd7zXZ\0",
    ".zst": rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18",
    ".zip": rb"PK(\x03\x04|\x05\x06)",
}
"""Compressed formats that mtkit does not read: how their names end, and their first bytes."""
OFFICE = re.compile(
    rb"(?s)PK\x03\x04.{26}(\[Content_Types|_rels|mimetype)|\xd0\xcf\x11\xe0|%PDF-|{\\rtf"
)
"""The first bytes of spreadsheets and documents."""
EXPORTS = {
    ".xlsx .xls .xlsm .ods .numbers": "a spreadsheet; save it as CSV (UTF-8)",
    ".docx .doc .odt .rtf .pdf .pptx": "a document; save it as plain text (UTF-8)",
    ".tmx .xliff .xlf .sdlxliff": "a translation file; export it as tab-separated text (.tsv)",
}
"""Files of other programs, by the end of their names: what they are, and how to export text."""
MAX_LINE_BYTES = 1 << 20
"""Largest line without its line feed; a larger line is read as blank."""
DEMO = "demo:"
"""Prefix of the files of the demo corpus, which are part of the package."""
READ_BYTES = 1 << 16
CARRIAGE_RETURN = ord("\r")  # `int in bytes` is faster than `bytes in bytes`
OLD_LINE_ENDS = "carriage returns do not end a line; convert old Mac line ends with: tr '\\r' '\\n'"
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)


@cache  # a corpus is read several times
def tell_once(tell: Callable[[str], None], text: str) -> None:
    """Call `tell` (`say` or `warn`), unless it has told the same text before."""
    tell(text)


def existing_file(path: str) -> Path:
    """Return the path of a file that exists and can be read more than once.

    Raises:
        UserError: the file does not exist, cannot be read, or is a folder, pipe or device.
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
    """Yield the lines of a file as `text_lines` does.

    Raises:
        UserError: the file cannot be read, or the gzip data is damaged.
    """
    with existing_file(path).open("rb") as file:
        yield from text_lines(file, path)


def input_lines(path: Path | None) -> Generator[str]:
    """Yield the lines of a file, pipe or standard input; errors are as in `open_input`."""
    with open_input(path) as file:
        yield from text_lines(file, str(path or "stdin"))


def text_lines(file: io.BufferedReader, name: str) -> Iterator[str]:
    """Yield the lines of an open file, without line ends and byte order mark.

    A line over MAX_LINE_BYTES is blank. Invalid UTF-8 is replaced. Each kind of fault gives one
    warning, and so do carriage returns that do not end a line. Errors are as in `text_blocks`.
    """
    faults: dict[str, tuple[int, int]] = {}  # the first line with each fault, and their number
    for number, raw in enumerate(split_lines(text_blocks(file, name)), 1):
        fault = ""
        if CARRIAGE_RETURN in raw:
            raw = raw.rstrip(b"\r")
            fault = OLD_LINE_ENDS if CARRIAGE_RETURN in raw else ""
        if len(raw) > MAX_LINE_BYTES:
            raw, fault = b"", fault or "longer than 1 MiB, read as an empty line"
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            line, fault = raw.decode(errors="replace"), fault or "invalid UTF-8 replaced"
        if fault:
            first, count = faults.get(fault, (number, 0))
            faults[fault] = first, count + 1
        yield line
    for fault, (first, count) in faults.items():
        others = plural(count, "such line")
        tell_once(warn, f"{name}:{first}: {fault} ({others} in the file)")


def is_utf16(path: str) -> bool:
    """Return whether a file begins with the byte order mark of UTF-16."""
    with existing_file(path).open("rb") as file:
        return file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def count_lines(path: str) -> int:
    """Return the number of lines that `read_lines` yields; errors are as in `read_lines`."""
    lines, last = 0, b"\n"  # the last line needs no line feed
    with existing_file(path).open("rb") as file:
        for block in text_blocks(file, path):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")


@contextmanager
def open_input(path: Path | None) -> Iterator[io.BufferedReader]:
    """Open a file, or standard input; read it with `text_blocks`.

    Raises:
        UserError: the file cannot be opened.
    """
    if path is None:
        if sys.stdin is None:
            raise UserError("stdin is closed; give a text file")
        yield cast(io.BufferedReader, sys.stdin.buffer)
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); give a text file") from None
    with file:
        yield file


def text_blocks(file: io.BufferedReader, name: str) -> Iterator[bytes]:
    """Yield the text of a file as UTF-8, in blocks as they arrive; `name` is for messages.

    The first bytes show whether the file is compressed with gzip, or in UTF-16 or UTF-32.

    Raises:
        UserError: the file has another format, or the gzip data is damaged.
        MtkitError: the file cannot be read.
    """
    lines = 0
    try:
        _wait(file)
        is_gzip = name.endswith(".gz") or file.peek().startswith(GZIP_MAGIC)
        reader = gzip.GzipFile(fileobj=file) if is_gzip else file
        start = reader.read1(READ_BYTES)  # without waiting: `peek` may have read it all
        refuse_format(name, start)
        blocks: Iterator[bytes] = chain([start], iter(partial(_read, reader), b""))
        for mark, encoding in ENCODINGS.items():
            if start.startswith(mark):
                blocks = map(str.encode, codecs.iterdecode(blocks, encoding, errors="replace"))
                break
        for block in filter(None, blocks):
            lines += block.count(b"\n") if is_gzip else 0
            yield block
    except GZIP_ERRORS as error:
        raise UserError(
            f"{name}:{lines + 1}: the gzip data is damaged or cut short ({error}); get another copy"
        ) from error
    except OSError as error:
        raise MtkitError(f"{name} cannot be read ({error.strerror})") from error


def refuse_format(name: str, start: bytes = b"") -> None:
    """Raise UserError if the name or the first bytes of a file show that it is not text."""
    suffix = PurePath(name.lower().removesuffix(".gz")).suffix
    for suffixes, advice in EXPORTS.items():
        if suffix in suffixes.split():
            raise UserError(f"{name} is {advice}")
    if OFFICE.match(start):
        raise UserError(f"{name} is a spreadsheet or document; save it as CSV or text (UTF-8)")
    for extension, magic in COMPRESSED.items():
        if suffix == extension or re.match(magic, start):
            advice = "unpack it, or compress it with gzip"
            raise UserError(f"{name} is compressed as {extension}; {advice}")
    if re.match(rb"([^\0]\0){4}|(\0[^\0]){4}", start):
        encoding = "UTF-16BE" if start[0] == 0 else "UTF-16LE"
        advice = f"convert it with: iconv -f {encoding} -t UTF-8"
        raise UserError(f"{name} seems to be {encoding} without a byte order mark; {advice}")


def _read(file: io.BufferedReader | gzip.GzipFile) -> bytes:
    if isinstance(file, io.BufferedReader):
        _wait(file)
    return file.read1(READ_BYTES)


def _wait(file: io.BufferedReader) -> None:
    """Wait for data before calling `read`, which holds a lock that Python needs to exit."""
    with suppress(OSError):  # a stream in memory has no file descriptor
        select.select([file.fileno()], [], [])


def split_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each line without its line feed; cut a longer line after MAX_LINE_BYTES + 1 bytes."""
    unended = bytearray()
    for block in blocks:
        first, *others = block.split(b"\n")
        unended += first[: MAX_LINE_BYTES + 1 - len(unended)]
        if others:
            yield bytes(unended)
            yield from others[:-1]
            unended = bytearray(others[-1])
    if unended:
        yield bytes(unended)


def listed_paths(paths: Paths) -> list[str]:
    """Return one path or several as a list."""
    return [paths] if isinstance(paths, str) else paths
