"""Documents of clients: an upload becomes a temporary file, which its translation replaces."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from codecs import BOM_UTF8
from dataclasses import replace
from io import BufferedReader
from pathlib import Path, PurePath
from tempfile import gettempdir

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse

from mtkit.corpus.files import MAX_LINE_BYTES, split_lines, text_blocks
from mtkit.decoding.translate import Files, Format, Input, TextInput
from mtkit.errors import UserError
from mtkit.extras.serve.service import RETRY, ClientDocument, Service
from mtkit.plugins import load_plugin

MAX_UPLOAD_BYTES = 16 << 20
MAX_DOCUMENTS = 64
"""Most documents that wait for a translation or are kept."""
KEEP_SECONDS = 1800.0
"""How long a translation can be downloaded."""
LINES_AT_ONCE = 32
"""How many lines of a document are translated at once: few, because other requests wait."""
MAX_FILE_NAME = 100
"""Most characters that are kept of the name of a document: its last ones."""


def list_suffixes() -> list[str]:
    """Return how the names of documents end."""
    formats = load_plugin("actions", "document_formats")
    return [".txt", *(suffix for form in formats for suffix in form.suffixes)]


def start_document(
    service: Service, upload: UploadFile, source: str | None, target: str, glossary_id: str = ""
) -> ClientDocument:
    """Start to translate a document.

    Raises:
        HTTPException: its name does not end like that of a document, or too many documents wait.
    """
    name = str(upload.filename)[-MAX_FILE_NAME:]
    suffix = PurePath(name.lower()).suffix
    suffixes = list_suffixes()
    if suffix not in suffixes:
        known = ", ".join(suffixes)
        raise HTTPException(400, f"file: {suffix!r} is none of the formats {known}")
    _make_room(service)
    path = Path(gettempdir(), f"mtkit-{secrets.token_hex(8)}{suffix}")
    # Not in a thread, because the client may go away meanwhile.
    _store(upload, path)
    identifier = secrets.token_hex(16)

    async def translate() -> int:
        try:
            async with service.document_turns:
                return await _translate(service, path, source, target, glossary_id)
        except UserError as error:
            raise HTTPException(400, str(error).replace(str(path), name)) from None

    def keep(work: asyncio.Task[int]) -> None:
        if work.cancelled() or work.exception():
            path.unlink(missing_ok=True)
        asyncio.get_running_loop().call_later(KEEP_SECONDS, _drop, service, identifier)

    work = asyncio.create_task(translate())
    work.add_done_callback(keep)
    translated = f"{PurePath(name).stem}.{target}{suffix}"
    document = ClientDocument(identifier, translated, path, work, secrets.token_hex(16))
    service.documents[identifier] = document
    return document


def _store(upload: UploadFile, path: Path) -> None:
    """Write an upload into a new file that only this user can read; leave none if that fails."""
    path.touch(mode=0o600, exist_ok=False)
    try:
        with path.open("wb") as stored:
            shutil.copyfileobj(upload.file, stored)
    except OSError:
        path.unlink()
        raise


def find_document(service: Service, identifier: str, key: str) -> ClientDocument:
    """Return the document with this id and key.

    Raises:
        HTTPException: there is no such document, or it has another key.
    """
    document = service.documents.get(identifier)
    if document is None or key != document.key:
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
    # As an attachment: a browser must not show foreign HTML as a page of this server.
    return FileResponse(document.path, filename=document.name)


def _drop(service: Service, identifier: str) -> None:
    document = service.documents.pop(identifier, None)
    if document:
        document.path.unlink(missing_ok=True)


def _make_room(service: Service) -> None:
    """Drop the oldest translation if there is no room for another document."""
    done = [each.identifier for each in service.documents.values() if each.work.done()]
    if len(service.documents) >= MAX_DOCUMENTS:
        if not done:
            raise HTTPException(429, "too many documents are waiting; try again later", RETRY)
        _drop(service, done[0])


async def _translate(
    service: Service, path: Path, source: str | None, target: str, glossary_id: str
) -> int:
    """Replace a document by its translation, and return the number of its characters."""
    document, lines = await asyncio.to_thread(_open_document, path)
    service.measure([max(lines, key=len, default="")])
    beginning = " ".join(lines)[: service.options.max_characters]
    directions, _ = await service.choose_directions([beginning], source, target)
    settings = service.choose_glossary(glossary_id, directions)
    (direction,) = directions
    leg = direction.legs[-1]
    translator = await service.open_translator(leg)
    tagged = replace(translator, request=translator.request.changed(tag=leg.tag))
    await asyncio.to_thread(document.prepare, tagged)
    written = bytearray()
    for start in range(0, len(lines), LINES_AT_ONCE):
        window = lines[start : start + LINES_AT_ONCE]
        works = [service.translate_line(line, direction, settings) for line in window]
        for number, translation in enumerate(await asyncio.gather(*works), start + 1):
            written += document.output(number, translation)
    written += await asyncio.to_thread(document.end)
    if path.suffix == ".txt":
        original = await asyncio.to_thread(path.read_bytes)
        if b"\r\n" in original:
            written = written.replace(b"\n", b"\r\n")
        if original.startswith(BOM_UTF8):
            written[:0] = BOM_UTF8
    await asyncio.to_thread(path.write_bytes, written)
    characters = sum(map(len, lines))
    service.characters += characters
    return characters


def _check_size(file: BufferedReader, path: Path) -> None:
    """Refuse a text with a line that is read as blank, or that is too large when it is unpacked."""
    size = 0
    for line in split_lines(text_blocks(file, str(path))):
        size += len(line) + 1
        if size > MAX_UPLOAD_BYTES or len(line) > MAX_LINE_BYTES:
            raise HTTPException(413, "the text is larger than 16 MiB, or a line than 1 MiB")
    file.seek(0)


def _open_document(path: Path) -> tuple[Input, list[str]]:
    open_document = load_plugin("actions", "open_document")
    with path.open("rb") as file:
        document: Input = open_document(path, None, False, None)
        if not document:
            _check_size(file, path)
            document = TextInput(file, Files(path), Format())
        return document, [line.text for line in document.lines(0)]
