"""Documents of clients: an upload becomes a temporary file, which its translation replaces."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from tempfile import NamedTemporaryFile

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse

from mtkit.decoding.translate import Files, Format, Input, TextInput
from mtkit.errors import UserError
from mtkit.extras.serve.directions import MAX_ECHO, ServedDirection
from mtkit.extras.serve.glossaries import choose_glossary
from mtkit.extras.serve.service import (
    DETECTED_CHARACTERS,
    MIN_LINE_CHARACTERS,
    RETRY,
    ClientDocument,
    Service,
)
from mtkit.plugins import load_plugin

MAX_UPLOAD_BYTES = 16 << 20
MAX_DOCUMENTS = 32
"""Most documents that are being sent, most that wait for a translation, and most that are kept."""
KEEP_SECONDS = 1800.0
"""How long a translation can be downloaded."""
WINDOW_CHARACTERS = 4_000
"""How much of a document is translated at once: little, because other requests wait for it."""
MAX_FILE_NAME = 100
"""Most characters that are kept of the name of a document: its last ones."""


@contextmanager
def admit_upload(service: Service) -> Iterator[None]:
    """Count a request with a document; refuse it if too many documents are not translated yet."""
    unfinished = sum(not each.work.done() for each in service.documents.values())
    if max(service.uploads, unfinished) >= MAX_DOCUMENTS:
        raise HTTPException(429, "too many documents are waiting; try again later", RETRY)
    service.uploads += 1
    try:
        yield
    finally:
        service.uploads -= 1


def list_suffixes() -> list[str]:
    """Return how the names of documents end."""
    formats = load_plugin("actions", "document_formats")
    return [".txt", *(suffix for form in formats for suffix in form.suffixes)]


async def start_document(
    service: Service, upload: UploadFile, source: str | None, target: str, glossary_id: str = ""
) -> str:
    """Start to translate a document, and return its id.

    Raises:
        HTTPException: its name does not end like that of a document.
    """
    name = (upload.filename or "")[-MAX_FILE_NAME:]
    suffix = PurePath(name.lower()).suffix
    suffixes = list_suffixes()
    if suffix not in suffixes:
        known = ", ".join(suffixes)
        raise HTTPException(400, f"file: {suffix[:MAX_ECHO]!r} is none of the formats {known}")
    path = await asyncio.to_thread(_store, upload, suffix)

    async def translate() -> int:
        try:
            async with service.document_turns:
                return await _translate(service, path, source, target, glossary_id)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, UserError):
                raise HTTPException(400, str(error).replace(str(path), name)) from None
            raise

    def keep(work: asyncio.Task[int]) -> None:
        if not work.cancelled():
            work.exception()  # asyncio would log it if no client asked for it
        asyncio.get_running_loop().call_later(KEEP_SECONDS, _drop, service, identifier)

    _make_room(service)
    identifier = secrets.token_hex(16)
    work = asyncio.create_task(translate())
    work.add_done_callback(keep)
    service.documents[identifier] = ClientDocument(name, path, work, secrets.token_hex(32))
    return identifier


def find_document(service: Service, identifier: str, key: str | None = None) -> ClientDocument:
    """Return a document; `key`: None if the client needs no key besides the id.

    Raises:
        HTTPException: there is no such document, or it has another key.
    """
    document = service.documents.get(identifier)
    if document is None or key not in (None, document.key):
        raise HTTPException(404, "there is no such document, or its key is wrong")
    return document


def send_document(document: ClientDocument) -> FileResponse:
    """Return a response with a translated document.

    Raises:
        HTTPException: it is not translated yet, or could not be translated.
    """
    if not document.work.done():
        raise HTTPException(503, "the document is not translated yet", RETRY)
    document.work.result()
    # Not the type of its name: a browser must not show foreign HTML as a page of this server.
    return FileResponse(
        document.path, filename=document.name, media_type="application/octet-stream"
    )


def _store(upload: UploadFile, suffix: str) -> Path:
    with NamedTemporaryFile(prefix="mtkit-", suffix=suffix, delete=False) as stored:
        shutil.copyfileobj(upload.file, stored)
    return Path(stored.name)


def _drop(service: Service, identifier: str) -> None:
    document = service.documents.pop(identifier, None)
    if document is not None:
        document.path.unlink(missing_ok=True)


def _make_room(service: Service) -> None:
    """Drop the oldest translations, so that there is room for another one."""
    done = [name for name, each in service.documents.items() if each.work.done()]
    for identifier in done[: len(service.documents) + 1 - MAX_DOCUMENTS]:
        _drop(service, identifier)


async def _translate(
    service: Service, path: Path, source: str | None, target: str, glossary_id: str
) -> int:
    """Replace a document by its translation, and return the number of its characters."""
    document, lines = await asyncio.to_thread(_open_document, path)
    service.measure([max(lines, key=len, default="")])
    beginning = " ".join(lines[:DETECTED_CHARACTERS])[:DETECTED_CHARACTERS]
    directions, _ = await service.choose_directions([beginning], source, target)
    settings = choose_glossary(service, glossary_id, directions)
    (direction,) = directions
    await _prepare(service, document, direction)
    written = bytearray()
    number = 0
    for window in divide_lines(lines):
        tasks = [service.translate_line(line, direction, settings) for line in window]
        for translation in await asyncio.gather(*tasks):
            number += 1
            written += document.output(number, translation)
    written += await asyncio.to_thread(document.end)
    await asyncio.to_thread(path.write_bytes, written)
    characters = sum(map(len, lines))
    service.characters += characters
    return characters


def _open_document(path: Path) -> tuple[Input, list[str]]:
    open_document = load_plugin("actions", "open_document")
    with path.open("rb") as file:
        document: Input = open_document(path, None, False, None)
        document = document or TextInput(file, Files(path), Format())
        return document, [line.text for line in document.lines(0)]


async def _prepare(service: Service, document: Input, direction: ServedDirection) -> None:
    """Tell the document its target language."""
    leg = direction.legs[-1]
    translator = await service.open_translator(leg)
    document.prepare(replace(translator, request=translator.request.changed(tag=leg.tag)))


def divide_lines(lines: Sequence[str]) -> Iterator[list[str]]:
    window: list[str] = []
    room = WINDOW_CHARACTERS
    for line in lines:
        window.append(line)
        room -= max(len(line), MIN_LINE_CHARACTERS)
        if room <= 0:
            yield window
            window = []
            room = WINDOW_CHARACTERS
    yield window
