"""Documents that clients send come back with their texts translated."""

from __future__ import annotations

import gzip
import socket
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import deepl
import httpx
import pytest

from folders import copier_of, train
from mtkit.corpus.files import MAX_LINE_BYTES
from mtkit.extras.serve import documents
from servers import Running, Send, address_in, application, directions_of, held_copier, running

DIRECTIONS = directions_of("en-de", "de-fr", "en-de-fr")
HTML = b"<p>A dog runs.</p>\n<p>Why?</p>"
"""A copier gives it back as it is."""
FORM = {"source": "en", "target": "de"}
KEY = "0123456789abcdef"
HALF_AN_UPLOAD = (
    b"POST /translate_file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def server() -> Iterator[Running]:
    copier = copier_of(train(["A Hund runs.", "A dog runs.", "Why?"]))
    with running({"en-de": copier, "de-fr": copier}, DIRECTIONS) as server:
        yield server


@pytest.fixture
def send() -> Iterator[Send]:
    with application({"en-de": copier_of(train())}, directions_of("en-de")) as send:
        yield send


def send_file(send: Send, name: str, content: bytes, **fields: str) -> httpx.Response:
    return send("POST", "/translate_file", files={"file": (name, content)}, data=FORM | fields)


def test_the_client_of_deepl_gets_a_translated_document(server: Running, tmp_path: Path) -> None:
    client = deepl.DeepLClient("none", server_url=server.url)
    glossary = client.create_glossary("dogs", "EN", "DE", {"dog": "Hund"})
    page, translation = tmp_path / "page.html", tmp_path / "page.de.html"
    page.write_bytes(HTML)
    status = client.translate_document_from_filepath(
        page, translation, source_lang="EN", target_lang="DE", glossary=glossary
    )
    assert status.billed_characters == len("A dog runs.Why?")
    assert translation.read_bytes() == HTML.replace(b"dog", b"Hund")
    page.write_bytes(b"\xff")
    with pytest.raises(deepl.DocumentTranslationException, match=r"page\.html: is not in"):
        client.translate_document_from_filepath(page, translation, target_lang="DE")
    client.close()  # type: ignore[no-untyped-call]


def test_a_document_of_libretranslate_goes_through_both_models_of_a_pair(server: Running) -> None:
    form = FORM | {"target": "fr"}
    files = {"file": ("My page.html", HTML)}
    answer = httpx.post(f"{server.url}/translate_file", files=files, data=form)
    url = answer.json()["translatedFileUrl"]
    assert url.startswith(server.url) and url.endswith(".html")
    with urlopen(url) as response:
        assert response.read() == HTML
        # Not as a page of this server.
        assert "attachment; filename*=utf-8''My%20page.fr.html" in str(response.headers)


@pytest.mark.parametrize("mark", [b"", BOM_UTF8])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_text_keeps_its_lines_their_ends_and_its_byte_order_mark(
    send: Send, mark: bytes, end: bytes
) -> None:
    text = mark + end.join([b"A dog runs.", b"", b"Why?", b""])
    answer = send_file(send, "TEXT.TXT", text, source="auto")
    assert send("GET", answer.json()["translatedFileUrl"]).content == text


def test_a_text_is_refused_if_one_of_its_lines_or_its_unpacked_size_is_above_the_limit(
    send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_line = b"W" * (MAX_LINE_BYTES + 1)
    assert send_file(send, "a.txt", b"A dog runs.\n" + long_line).status_code == 413
    monkeypatch.setattr(documents, "MAX_UPLOAD_BYTES", 1_000)
    assert send_file(send, "a.txt", gzip.compress(b"\n" * 1_000)).status_code == 200
    assert send_file(send, "a.txt", gzip.compress(b"\n" * 1_001)).status_code == 413


def test_a_client_with_a_key_does_not_wait_for_uploads_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mtkit.extras.serve.service.MAX_PARALLEL_UPLOADS", 1)
    models = {"en-de": copier_of(train())}
    with (
        running(models, directions_of("en-de"), keys=[KEY]) as server,
        socket.create_connection(address_in(server)) as stranger,
    ):
        stranger.sendall(HALF_AN_UPLOAD)
        while not server.service.upload_turns[False].locked():
            pass
        header = {"Authorization": f"Bearer {KEY}"}
        address, files = f"{server.url}/translate_file", {"file": ("a.html", HTML)}
        answer = httpx.post(address, files=files, data=FORM, headers=header)
        assert answer.status_code == 200


def test_an_upload_that_stops_is_ended_and_gives_its_place_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mtkit.extras.serve.application.BODY_SECONDS", 0.01)
    with (
        running({}, directions_of("en-de")) as server,
        socket.create_connection(address_in(server), timeout=30) as client,
    ):
        client.sendall(HALF_AN_UPLOAD)
        with client.makefile("rb") as response:
            assert response.read().startswith(b"HTTP/1.1 408 ")
        assert not server.service.upload_turns[True].locked()


def test_a_document_of_deepl_needs_its_key_at_every_path(send: Send) -> None:
    form = {"source_lang": "EN", "target_lang": "DE"}
    answer = send("POST", "/v2/document", files={"file": ("a.html", HTML)}, data=form).json()
    for name in (answer["document_id"], f"{answer['document_id']}-x"):
        assert send("GET", f"/download_file/{name}.html").status_code == 404


@pytest.mark.parametrize(
    ("name", "content", "fields", "reason"),
    [
        ("page.pdf", b"", {}, "'.pdf' is none of the formats .txt, .po"),
        ("page", b"", {}, "'' is none of the formats"),
        ("../etc/x.docx", b"PK", {}, "../etc/x.docx: is damaged"),
        ("page.json", b"{", {}, "page.json:1: "),
        ("page.html", HTML, {"target": "ko"}, "'en' to 'ko' is not served"),
        ("page.html", b"W" * 100, {}, "100 characters, above 80"),
    ],
)
def test_a_document_that_cannot_be_translated_is_refused_and_deleted(
    folder: Path, name: str, content: bytes, fields: dict[str, str], reason: str
) -> None:
    with application({}, directions_of("en-de"), max_characters=80) as send:
        answer = send_file(send, name, content, **fields)
    assert answer.status_code in (400, 413)
    assert reason in answer.json()["error"]
    assert list(folder.iterdir()) == []


def test_an_upload_above_the_limit_is_refused(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.extras.serve.application.MAX_UPLOAD_BYTES", 1)
    assert send_file(send, "page.html", b"W" * 65_537).status_code == 413
    assert send("POST", "/translate_file", data=FORM | {"file": "W"}).status_code == 415
    assert send("POST", "/translate_file", files={"other": ("a.txt", b"W")}).status_code == 400


def test_no_document_is_accepted_while_too_many_wait_and_other_requests_are_answered(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENTS", 2)
    monkeypatch.setattr("mtkit.extras.serve.deepl.MAX_STATUS_SECONDS", 0)
    translator, engine = held_copier()
    with (
        running({"en-de": translator}, directions_of("en-de")) as server,
        httpx.Client(base_url=server.url) as client,
    ):

        def start() -> httpx.Response:
            form = {"source_lang": "EN", "target_lang": "DE"}
            return client.post("/v2/document", files={"file": ("a.html", HTML)}, data=form)

        def ask(document: dict[str, str], what: str = "", **fields: str) -> httpx.Response:
            path = f"/v2/document/{document['document_id']}{what}"
            return client.post(path, json=document | fields)

        first, second = start().json(), start().json()
        refused = start()
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "2")
        assert ask(first).json()["status"] == "translating"
        assert ask(first, "/result").status_code == 503
        assert ask(first, document_key=second["document_key"]).status_code == 404
        for _ in range(4):
            engine.searches.get()[1]()
        for document in (first, second):
            while ask(document).json()["status"] != "done":
                pass
            assert ask(document, "/result").content == HTML
        third = start().json()  # which takes the place of the first one
        assert ask(first).status_code == 404
        assert ask(third).json()["status"] == "translating"
        assert len(list(folder.iterdir())) == 2
    assert list(folder.iterdir()) == []


def test_a_document_is_deleted_when_its_time_has_passed(
    send: Send, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(documents, "KEEP_SECONDS", 0)
    url = send_file(send, "a.html", HTML).json()["translatedFileUrl"]
    assert send("GET", url).status_code == 404
    assert list(folder.iterdir()) == []


def test_an_upload_that_a_full_disk_refuses_leaves_nothing(
    send: Send, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_files: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mtkit.extras.serve.documents.shutil.copyfileobj", fail)
    assert send_file(send, "a.html", HTML).status_code >= 500
    assert list(folder.glob("mtkit-*")) == []
