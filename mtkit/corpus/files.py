"""Read lines of text files as a stream: UTF-8, or UTF-16 with a byte order mark, plain or packed.

Packed files are in gzip or Zstandard.

Only a line feed ends a line. A line over 1 MiB is not a sentence; it is read as a blank line, so
that memory stays bounded whatever a file contains, even after decompression.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import os
import re
import select
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from importlib.resources import files
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import cast

from mtkit.config.base import Paths
from mtkit.errors import MtkitError, UserError
from mtkit.report import plural, warn

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

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
    ".zip": rb"PK(\x03\x04|\x05\x06)",
}
"""Compressed formats that mtkit does not read: how their names end, and their first bytes."""
OFFICE = re.compile(
    rb"(?s)PK\x03\x04.{26}(\[Content_Types|_rels|mimetype)|\xd0\xcf\x11\xe0|%PDF-|{\\rtf"
)
"""The first bytes of spreadsheets and documents."""
FOREIGN_FORMATS = {
    (".xlsx", ".xls", ".xlsm", ".ods", ".numbers"): "is a spreadsheet; save it as CSV (UTF-8)",
    (".docx", ".doc", ".odt", ".rtf", ".pdf", ".pptx"): (
        "is a document; save it as plain text (UTF-8)"
    ),
    (
        *(".po", ".pot", ".json", ".arb", ".properties", ".ini", ".toml", ".yml", ".yaml", ".ftl"),
        *(".strings", ".stringsdict", ".xcstrings", ".resx", ".ts", ".xliff", ".xlf", ".sdlxliff"),
    ): (
        "is a file of keys and messages, not of text; convert it to .csv or .tmx, as po2csv does; "
        "`mtkit translate` knows the formats that `mtkit guide documents` lists"
    ),
    (".tmx",): (
        "is a translation memory, which is read only as a whole corpus: by `mtkit check FILE`, "
        "`mtkit init FILE`, or as `table` in a config"
    ),
}
"""Files of other programs, by the ends of their names: what is wrong, and how to export text."""
UTF16_START = rb"([^\0]\0){4}|(\0[^\0]){4}"
"""Four ASCII characters in UTF-16 without a byte order mark: every second byte is 0."""
MAX_LINE_BYTES = 1 << 20
"""Largest line without its line feed; a larger line is read as blank."""
DEMO = "demo:"
"""Prefix of the files of the demo corpus, which are part of the package."""
READ_BYTES = 1 << 16
SAMPLE_LINES = 100
"""Lines at the start of a text that tell whether it is a table with tabs."""
CARRIAGE_RETURN = ord("\r")  # `int in bytes` is faster than `bytes in bytes`
OLD_LINE_ENDS_WARNING = (
    "carriage returns do not end a line; convert old Mac line ends with: tr '\\r' '\\n'"
)
"""Of carriage returns within a line: a carriage return alone ended lines on old Macs."""
INVALID_UTF8 = "invalid UTF-8 replaced"
PACKINGS: Mapping[str, tuple[str, bytes, Callable[[io.BufferedReader], io.BufferedIOBase]]] = {
    "gzip": (".gz", rb"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    "zstd": (
        ".zst",
        rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18",
        lambda file: zstd.ZstdFile(file),
    ),
}
"""Formats of packed text: how their names end, their first bytes, and what unpacks them."""
PACKING_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError)


@cache  # a corpus is read several times
def tell_once(tell: Callable[[str], None], text: str) -> None:
    """Call `tell` (`say` or `warn`), unless it has told the same text before."""
    tell(text)


def existing_file(path: str) -> Path:
    """Return the path of a file that exists and can be read more than once.

    Raises:
        UserError: the file does not exist, cannot be read, or is a folder, pipe or device.
    """
    file = Path(path)
    if path.startswith(DEMO):
        file = Path(str(files("mtkit.demo")), path.removeprefix(DEMO))
    try:
        if not file.exists():
            hint = ""
            if not file.is_absolute():
                hint = f"; relative paths start in the current folder, {Path.cwd()}"
            raise UserError(f"{path}: no such file{hint}")
        if file.is_dir():
            raise UserError(f"{path} is a folder; give a file")
        if not file.is_file():
            raise UserError(
                f"{path} is a pipe or device, which cannot be read again; write it to a file"
            )
        if not os.access(file, os.R_OK):
            raise UserError(f"{path} cannot be read ({os.strerror(errno.EACCES)})")
        return file
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from error


def open_existing(path: str) -> io.BufferedReader:
    """Open a file; errors are as in `existing_file`."""
    file = existing_file(path)
    try:
        return file.open("rb")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from error


def read_lines(path: str) -> Generator[str]:
    """Yield the lines of a file, as `text_lines` does.

    Raises:
        UserError: the file cannot be opened, has another format, or the packed data is damaged.
        MtkitError: the file cannot be read to its end.
    """
    with open_existing(path) as file:
        yield from text_lines(file, path)


def input_lines(path: Path | None) -> Generator[str]:
    """Yield the lines of a file, pipe or standard input; errors are as in `open_input`."""
    with open_input(path) as file:
        yield from text_lines(file, str(path or "stdin"))


def text_lines(file: io.BufferedReader, name: str, *, is_strict: bool = False) -> Iterator[str]:
    """Yield the lines of an open file, without line ends and byte order mark.

    A line over MAX_LINE_BYTES is blank. Invalid UTF-8 is replaced, or an error if `is_strict`. Each
    kind of fault gives one warning, and so do carriage returns that do not end a line. Other errors
    are as in `text_blocks`.
    """
    first_lines: dict[str, int] = {}  # the first line with each fault
    counts: Counter[str] = Counter()
    for number, raw in enumerate(split_lines(text_blocks(file, name)), 1):
        # utf-8-sig leaves out a byte order mark.
        line, fault = _decode_line(raw, "utf-8-sig" if number == 1 else "utf-8")
        if fault == INVALID_UTF8 and is_strict:
            raise UserError(f"{name}:{number}: not UTF-8; convert the file")
        if fault:
            first_lines.setdefault(fault, number)
            counts[fault] += 1
        yield line
    for fault, number in first_lines.items():
        lines = plural(counts[fault], "such line")
        tell_once(warn, f"{name}:{number}: {fault} ({lines} in the file)")


def _decode_line(raw: bytes, encoding: str) -> tuple[str, str]:
    """Return the text of a line, and a fault of it; "" if it has none."""
    fault = ""
    if CARRIAGE_RETURN in raw:
        raw = raw.rstrip(b"\r")
        if CARRIAGE_RETURN in raw:
            fault = OLD_LINE_ENDS_WARNING
    if len(raw) > MAX_LINE_BYTES:
        return "", fault or "longer than 1 MiB, read as an empty line"
    try:
        return raw.decode(encoding), fault
    except UnicodeDecodeError:
        return raw.decode(encoding, errors="replace"), INVALID_UTF8


def is_utf16(path: str) -> bool:
    """Return whether a file begins with the byte order mark of UTF-16."""
    with open_existing(path) as file:
        return file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def count_lines(path: str) -> int:
    """Return the number of lines that `read_lines` yields; errors are as in `read_lines`."""
    lines = 0
    last_byte = b"\n"
    with open_existing(path) as file:
        for block in text_blocks(file, path):
            lines += block.count(b"\n")
            last_byte = block[-1:]
    if last_byte != b"\n":  # the last line needs no line feed
        lines += 1
    return lines


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

    The first bytes show whether the file is packed, or in UTF-16 or UTF-32.

    Raises:
        UserError: the file has another format, or the packed data is damaged.
        MtkitError: the file cannot be read.
    """
    refuse_name(name)
    return unpacked_blocks(file, name)


def unpacked_blocks(file: io.BufferedReader, name: str) -> Generator[bytes]:
    """Yield blocks as `text_blocks` does, also of a file whose name is not that of a text."""
    lines = 0  # complete lines before damaged data, for the message
    packing = None
    try:
        _wait(file)
        packing, reader = unpack(file, name)
        # Not `_read`: its `select` would not see bytes that `peek` has moved into the buffer.
        start = reader.read1(READ_BYTES)
        _refuse_content(name, start)
        rest = iter(partial(_read, reader), b"")  # until the end of the file
        blocks = _as_utf8(chain([start], rest), start)
        for block in blocks:
            if not block:  # the decoder waits for the rest of a character
                continue
            if packing is not None:
                lines += block.count(b"\n")
            yield block
    except PACKING_ERRORS as error:
        raise UserError(
            f"{name}:{lines + 1}: the {packing} data is damaged or cut short ({error}); get "
            "another copy"
        ) from error
    except OSError as error:
        raise MtkitError(f"{name} cannot be read ({error.strerror})") from error


def unpack(file: io.BufferedReader, name: str) -> tuple[str | None, io.BufferedIOBase]:
    """Return the format of a packed file and a reader of its content; None and `file` if plain."""
    for packing, (suffix, magic, open_packed) in PACKINGS.items():
        if name.endswith(suffix) or re.match(magic, file.peek()):
            return packing, open_packed(file)
    return None, file


def without_packing(name: str) -> str:
    """Return the name of a file without .gz or .zst at its end."""
    return re.sub(r"\.(gz|zst)$", "", name)


def _as_utf8(blocks: Iterator[bytes], start: bytes) -> Iterator[bytes]:
    """Re-encode blocks in UTF-16 or UTF-32, which the first bytes tell; keep others as they are."""
    for mark, encoding in ENCODINGS.items():
        if start.startswith(mark):
            return map(str.encode, codecs.iterdecode(blocks, encoding, errors="replace"))
    return blocks


def refuse_name(name: str) -> None:
    """Raise UserError if the name of a file shows that it is not text."""
    suffix = PurePath(without_packing(name.lower())).suffix
    for suffixes, problem in FOREIGN_FORMATS.items():
        if suffix in suffixes:
            raise UserError(f"{name} {problem}")
    if suffix in COMPRESSED:
        raise _compressed(name, suffix)


def refuse_misnamed_input(path: str) -> None:
    """Raise UserError if a text to translate is a table in UTF-16, as Excel writes it.

    In UTF-8, a text with tabs may be a text.
    """
    if Path(path).is_file() and is_utf16(path):
        refuse_misnamed_table(path)


def refuse_misnamed_table(path: str) -> None:
    """Raise UserError if a file that is not named as a table has tabs in each of its first lines.

    Excel, for example, names such a table .txt ("Unicode text").
    """
    with closing(read_lines(path)) as lines:
        sample = list(islice(lines, SAMPLE_LINES))
    filled_lines = [line for line in sample if line.strip()]
    if filled_lines and all("\t" in line for line in filled_lines):
        name = PurePath(without_packing(path)).with_suffix(".tsv").name
        raise UserError(f"{path} is a table with tabs between its cells; rename it to {name}")


def _refuse_content(name: str, start: bytes) -> None:
    """Raise UserError if the first bytes of a file show that it is not text."""
    if OFFICE.match(start):
        raise UserError(f"{name} is a spreadsheet or document; save it as CSV or text (UTF-8)")
    for extension, magic in COMPRESSED.items():
        if re.match(magic, start):
            raise _compressed(name, extension)
    if re.match(UTF16_START, start):
        encoding = "UTF-16BE" if start[0] == 0 else "UTF-16LE"
        raise UserError(
            f"{name} seems to be {encoding} without a byte order mark; convert it with: "
            f"iconv -f {encoding} -t UTF-8"
        )


def _compressed(name: str, extension: str) -> UserError:
    return UserError(f"{name} is compressed as {extension}; unpack it, or compress it with gzip")


def _read(file: io.BufferedIOBase) -> bytes:
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
        first, *later = block.split(b"\n")
        unended += first[: MAX_LINE_BYTES + 1 - len(unended)]
        if later:
            *ended, rest = later
            yield bytes(unended)
            yield from ended
            unended = bytearray(rest)
    if unended:
        yield bytes(unended)


def listed_paths(paths: Paths) -> list[str]:
    """Return one path or several as a list."""
    return [paths] if isinstance(paths, str) else paths
