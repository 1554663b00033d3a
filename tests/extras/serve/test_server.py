"""Laws of the server: who may ask, how much, and what happens to work that nobody waits for."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from architectures import transformer
from commands import call
from estimators import with_languages, write_model_with
from folders import SENTENCES, as_if_trained, copier_of, train, write_model
from mtkit.config.target_tags import piece_of_tag
from mtkit.decoding.api import Translator, load
from mtkit.decoding.text.line import Translation
from mtkit.errors import MtkitError, UserError
from mtkit.extras.serve import server as server_module
from mtkit.extras.serve.directions import find_directions
from mtkit.extras.serve.interface import decode_entities, encode_entities
from mtkit.extras.serve.server import DisconnectProtocol, listen, read_keys
from mtkit.extras.serve.service import ServerOptions, Service
from nasties import DEEP, INVALID, VALID
from servers import Send, address_in, application, directions_of, held_copier, running

EN_DE = directions_of("en-de")
FORMS = {"q": "Why?", "source": "en", "target": "de"}
KEY = "0123456789abcdef"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def send() -> Iterator[Send]:
    """An application that copies from English to German."""
    with application({"en-de": copier_of(train())}, EN_DE) as send:
        yield send


CHAT = {"model": "en-de", "messages": [{"role": "user", "content": "Why?"}]}
VALID_FIELDS: dict[str, dict[str, Any]] = {
    "/translate": FORMS,
    "/detect": {"q": "Why?"},
    "/v2/translate": {"text": ["Why?"], "target_lang": "DE"},
    "/v1/chat/completions": CHAT,
}
PATHS = sorted(VALID_FIELDS)


def message_of(response: httpx.Response) -> str:
    """Return the reason of a refusal, in the form of its interface."""
    record = response.json()
    if response.url.path.startswith("/v1/"):
        assert set(record["error"]) == {"message", "type", "param", "code"}
        return str(record["error"]["message"])
    (message,) = record.values()
    assert set(record) == ({"message"} if response.url.path.startswith("/v2/") else {"error"})
    return str(message)


# ---- what is asked ----


@pytest.mark.parametrize("text", VALID.values(), ids=VALID.keys())
def test_a_text_has_as_many_lines_as_its_translation(send: Send, text: str) -> None:
    response = send("POST", "/translate", json=FORMS | {"q": f"{text}\nWhy?"})
    assert response.status_code == 200
    translation = response.json()["translatedText"]
    assert translation.count("\n") == text.count("\n") + 1
    assert translation.endswith("\nWhy?")


def test_a_list_of_texts_gives_lists(send: Send) -> None:
    texts = ["Why?", "", "A dog runs.\nWhy?"]
    fields = FORMS | {"q": texts, "source": "auto", "alternatives": 1}
    answer = send("POST", "/translate", json=fields).json()
    assert answer["translatedText"] == texts
    assert [each["language"] for each in answer["detectedLanguage"]] == ["en"] * 3
    assert len(answer["alternatives"]) == 3


def test_details_come_for_each_line_and_leave_the_translation_as_it_is(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", train(), transformer(), as_if_trained)
    translator = load(model, scores=False)
    text = "\n".join(SENTENCES)
    aligned = [each.alignment for each in translator.results(SENTENCES, alignments=True)]
    with application({"en-de": translator}, EN_DE) as send:
        plain = send("POST", "/translate", json=FORMS | {"q": text}).json()
        answer = send("POST", "/translate", json=FORMS | {"q": text, "details": True}).json()
    assert answer["translatedText"] == plain["translatedText"]
    lines = answer["details"]["lines"]
    assert "\n".join(line["text"] for line in lines) == plain["translatedText"]
    links = [{tuple(link) for link in line["links"]} for line in lines]
    assert links == aligned


@pytest.mark.parametrize("name", ["de", "DE", "de-AT", "de_AT", "deu"[:2]])
def test_a_region_does_not_matter(send: Send, name: str) -> None:
    assert send("POST", "/translate", json=FORMS | {"target": name}).status_code == 200


def test_a_form_and_json_get_the_same_answer(send: Send) -> None:
    form = send("POST", "/translate", data=FORMS)
    assert form.status_code == 200
    assert form.json() == send("POST", "/translate", json=FORMS).json()


def test_deepl_in_a_form_asks_for_what_mtkit_always_does(send: Send) -> None:
    form = {"text": ["Why?", "A dog runs."], "target_lang": "DE", "preserve_formatting": "false"}
    answer = send("POST", "/v2/translate", data=form)
    assert [each["text"] for each in answer.json()["translations"]] == form["text"]


@pytest.mark.parametrize("path", PATHS)
def test_fields_that_cannot_change_a_translation_are_ignored(send: Send, path: str) -> None:
    assert send("POST", path, json=VALID_FIELDS[path] | {"other": ["other"]}).status_code == 200


@pytest.mark.parametrize(
    ("path", "field"), [("/v2/translate", "style_id"), ("/v1/chat/completions", "tools")]
)
def test_what_would_change_a_translation_is_refused_by_name(
    send: Send, path: str, field: str
) -> None:
    response = send("POST", path, json=VALID_FIELDS[path] | {field: "x"})
    assert response.status_code == 400
    assert message_of(response) == f"{field}: not supported by mtkit"
    assert send("POST", path, json=VALID_FIELDS[path] | {field: None}).status_code == 200


@pytest.mark.parametrize("field", [{"format": "pdf"}, {"alternatives": 11}, {"target": 1}])
def test_a_wrong_value_is_refused_by_the_name_of_its_field(
    send: Send, field: dict[str, Any]
) -> None:
    response = send("POST", "/translate", json=FORMS | field)
    assert response.status_code == 400
    assert message_of(response).startswith(f"{min(field)}: ")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>Tom &amp; Jerry&#39;s</p>", "<p>Tom & Jerry's</p>"),
        ("1 &lt; 2 &amp;lt; 3", "1 &lt; 2 &amp;lt; 3"),
        ('<a title="&quot;A&quot;">caf&eacute;</a>', '<a title="&quot;A&quot;">café</a>'),
        ("one&#10;two", "one&#10;two"),
    ],
)
def test_entities_become_characters_unless_these_would_be_markup(html: str, text: str) -> None:
    assert decode_entities(html) == text
    assert unescape(encode_entities(text)) == unescape(html)


# The fields that each tool sends, by its source code, with texts and languages of these tests.
REQUESTS_OF_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "Mastodon": (
        "/translate",
        {"q": ["<p>A dog &amp; a cat</p>"], "source": "auto", "target": "de", "format": "html"},
    ),
    "Weblate, DeepL": (
        "/v2/translate",
        {
            "text": ['<x id="0"></x> &amp; Why?'],
            "source_lang": "EN",
            "target_lang": "DE",
            "formality": "default",
            "tag_handling": "xml",
            "ignore_tags": ["x"],
            "context": "A park.",
        },
    ),
    "Weblate, LibreTranslate": (
        "/translate",
        {"q": "The [X4X] dog runs.", "source": "en", "target": "de", "api_key": ""},
    ),
    "Subtitle Edit, LibreTranslate": (
        "/translate",
        {"q": "- Why?\n- A dog runs.", "source": "en", "target": "de"},
    ),
    "DeepL, all options": (
        "/v2/translate",
        {
            "text": ["Why?"],
            "target_lang": "DE",
            "split_sentences": "nonewlines",
            "preserve_formatting": True,
            "outline_detection": False,
            "model_type": "latency_optimized",
        },
    ),
    "Subtitle Edit, llama.cpp": (
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": "Why?"}],
            "temperature": 0.7,
            "top_k": 40,
            "stop": ["</s>"],
            "cache_prompt": True,
        },
    ),
    "a chat tool": (
        "/v1/chat/completions",
        {
            "model": "gpt-4o-mini",
            "messages": [{"role": "user", "content": "Why?"}],
            "response_format": {"type": "text"},
            "tools": [],
            "logprobs": False,
            "store": False,
            "service_tier": "auto",
            "keep_alive": "5m",
        },
    ),
}


@pytest.mark.parametrize("name", REQUESTS_OF_TOOLS)
def test_a_request_of_a_tool_gets_its_text_back_from_a_copier(send: Send, name: str) -> None:
    path, fields = REQUESTS_OF_TOOLS[name]
    answer = send("POST", path, json=fields)
    assert answer.status_code == 200, answer.text
    if path == "/translate":
        assert answer.json()["translatedText"] == fields["q"]
    elif path == "/v2/translate":
        assert [each["text"] for each in answer.json()["translations"]] == fields["text"]
    else:
        (choice,) = answer.json()["choices"]
        assert choice["message"]["content"] == "Why?"


@pytest.mark.parametrize("sample", [False, True])
def test_a_temperature_changes_nothing_unless_the_server_samples(
    tmp_path: Path, sample: bool
) -> None:
    model = write_model(tmp_path / "model", train(), transformer(), as_if_trained)
    text = "\n".join(SENTENCES)
    fields = {"messages": [{"role": "user", "content": text}]}
    hot = fields | {"temperature": 2, "top_p": 0.9, "seed": 1}
    with application({"en-de": load(model, scores=False)}, EN_DE, sample=sample) as send:
        answers = [send("POST", "/v1/chat/completions", json=each) for each in (fields, hot)]
    searched, asked = (each.json()["choices"][0]["message"]["content"] for each in answers)
    assert (searched != asked) == sample


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [*INVALID.values(), DEEP.encode(), b"", b"[]", b"{", b"null"])
def test_a_body_that_cannot_be_read_is_refused(send: Send, path: str, body: bytes) -> None:
    response = send("POST", path, content=body, headers=JSON)
    assert response.status_code == 400
    assert message_of(response)


def test_another_type_of_body_a_path_or_a_method_is_refused(send: Send) -> None:
    assert send("POST", "/translate", files={"q": b"Why?"}).status_code == 415
    assert send("POST", "/v1/chat/completions", data={"model": "en-de"}).status_code == 415
    for method, path in (("GET", "/v2/nothing"), ("POST", "/chat/completions"), ("GET", "/v1")):
        unknown = send(method, path)
        assert unknown.status_code == 404
        assert "choose from /v1/chat/completions, " in unknown.text
    wrong = send("GET", "/translate")
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "POST")
    assert message_of(wrong) == "Method Not Allowed"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(st.sampled_from(PATHS), st.data())
def test_no_request_is_an_internal_error(send: Send, path: str, data: st.DataObject) -> None:
    fields = dict(VALID_FIELDS[path])
    changed = data.draw(st.dictionaries(st.sampled_from(sorted(fields)), json_values, max_size=2))
    body = json.dumps(fields | changed)
    response = send("POST", path, content=body, headers=JSON)
    assert response.status_code in (200, 400, 404)
    response.json()


def test_the_page_loads_only_its_own_files_and_makes_no_html(send: Send) -> None:
    page = send("GET", "/")
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page.text)
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert "http" not in policy
    assert " style=" not in page.text and " onclick=" not in page.text
    assert "<script>" not in page.text and "<style>" not in page.text
    script = send("GET", "/page.js").text
    for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert name not in script
    assert "http" not in script.replace("https://", "http").partition("fetch(")[0]


# ---- how much ----


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("text", "size"), [("W" * 81, 81), (f"{'W' * 41}\nh", 81)])
def test_a_text_above_the_limit_is_refused(path: str, text: str, size: int) -> None:
    body = json.dumps(VALID_FIELDS[path]).replace("Why?", json.dumps(text)[1:-1])
    with application({"en-de": copier_of(train())}, EN_DE, max_characters=80) as send:
        response = send("POST", path, content=body, headers=JSON)
    assert response.status_code == 413
    assert f"{size} characters, above 80" in message_of(response)


def test_a_body_above_the_limit_is_refused_before_it_is_read(send: Send) -> None:
    sent = 0

    async def chunks() -> Any:
        nonlocal sent
        for _ in range(1000):
            sent += 65_536
            yield b"a" * 65_536

    with application({"en-de": copier_of(train())}, EN_DE, max_characters=10) as send_limited:
        response = send_limited("POST", "/translate", content=chunks(), headers=JSON)
    assert response.status_code == 413
    assert sent < 10 * 65_536


def test_work_above_the_limit_is_refused_while_other_work_waits() -> None:
    translator, engine = held_copier()
    with (
        # Less than one line counts as.
        running({"en-de": translator}, EN_DE, max_waiting=30) as server,
        ThreadPoolExecutor() as pool,
    ):
        first = pool.submit(httpx.post, f"{server.url}/translate", json=FORMS)
        _, answer = engine.searches.get()
        refused = httpx.post(f"{server.url}/translate", json=FORMS)
        assert refused.status_code == 429
        assert "waiting" in refused.json()["error"]
        assert refused.headers["Retry-After"]
        answer()
        assert first.result().json() == {"translatedText": "Why?"}
        second = pool.submit(httpx.post, f"{server.url}/translate", json=FORMS)
        engine.searches.get()[1]()
        assert second.result().status_code == 200


def test_a_translation_that_takes_too_long_is_refused_and_stops() -> None:
    translator, engine = held_copier()
    with running({"en-de": translator}, EN_DE, timeout_seconds=0.01) as server:
        for path in PATHS:
            if path != "/detect":
                refused = httpx.post(f"{server.url}{path}", json=VALID_FIELDS[path])
                assert refused.status_code == 503
                assert "over 0.01 s" in message_of(refused)
    while not engine.searches.empty():  # those that began in time
        search, _ = engine.searches.get()
        assert search.cancelled()


def wait_for_end(search: Future[Any]) -> None:
    ended = threading.Event()
    search.add_done_callback(lambda _: ended.set())
    assert ended.wait(30)


def test_the_search_of_a_client_that_goes_away_is_cancelled() -> None:
    translator, engine = held_copier()
    with running({"en-de": translator}, EN_DE) as server:
        host, port = address_in(server)
        for fields in (CHAT, CHAT | {"stream": True}):
            body = json.dumps(fields)
            head = (
                f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            with socket.create_connection((host, port)) as client:
                client.sendall(head.encode() + body.encode())
                search, _ = engine.searches.get()
            wait_for_end(search)
            assert search.cancelled()


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """What is set when a connection of a server has ended."""
    lost = threading.Event()
    end = DisconnectProtocol.connection_lost

    def connection_lost(connection: DisconnectProtocol, failure: Exception | None) -> None:
        end(connection, failure)
        lost.set()

    monkeypatch.setattr(DisconnectProtocol, "connection_lost", connection_lost)
    return lost


REQUEST = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"


@pytest.mark.parametrize("length", [0, 14, 40, len(REQUEST)])
def test_a_client_that_does_not_finish_a_request_loses_its_connection(
    length: int, lost: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "CLIENT_SECONDS", 0.01)
    with running({}, EN_DE) as server, socket.create_connection(address_in(server)) as client:
        client.sendall(REQUEST[:length])
        assert lost.wait(30)


def test_a_client_that_does_not_read_a_response_loses_its_connection(
    lost: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the rest is small, because the connection would never close."""

    def listen_with_small_buffer(options: ServerOptions) -> socket.socket:
        listener = listen(options)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        return listener

    monkeypatch.setattr(server_module, "CLIENT_SECONDS", 0.01)
    monkeypatch.setattr("servers.listen", listen_with_small_buffer)
    with running({}, EN_DE) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        client.connect(address_in(server))
        # Together more than the buffers of the two sockets hold, but under 64 KiB.
        client.sendall(4 * b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert lost.wait(30)


def test_a_server_that_stops_finishes_what_is_being_translated() -> None:
    translator, engine = held_copier()
    with (
        running({"en-de": translator}, EN_DE) as server,
        ThreadPoolExecutor() as pool,
    ):
        waiting = pool.submit(httpx.post, f"{server.url}/translate", json=FORMS)
        _, answer = engine.searches.get()
        server.stop()
        answer()
        assert waiting.result().json() == {"translatedText": "Why?"}


def test_a_translation_does_not_depend_on_who_else_asks(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", train(), transformer(), as_if_trained, beam=3)
    translator = load(model, scores=False, workers=1, threads=1)
    lines = [f"{sentence} {number}" for number in range(10) for sentence in SENTENCES]
    alone = [translator.translate([line])[0] for line in lines]

    with (
        running({"en-de": translator}, EN_DE) as server,
        ThreadPoolExecutor(16) as pool,
        httpx.Client() as client,
    ):

        def ask(line: str) -> str:
            answer = client.post(f"{server.url}/translate", json=FORMS | {"q": line})
            return str(answer.json()["translatedText"])

        assert list(pool.map(ask, lines)) == alone


@pytest.mark.parametrize("kind", [MtkitError, RuntimeError])
def test_a_model_that_cannot_be_loaded_is_tried_again(
    kind: type[Exception], send: Send, capsys: pytest.CaptureFixture[str]
) -> None:
    translators: dict[str, Any] = {}

    class Missing(dict[str, Any]):
        def __missing__(self, place: str) -> Any:
            raise kind("the disk is gone")

    translators = Missing()
    with application(translators, EN_DE) as send_missing:
        refused = send_missing("POST", "/translate", json=FORMS)
        assert refused.status_code == 503
        assert message_of(refused) == "the model en-de cannot be loaded"
        translators["en-de"] = copier_of(train())
        assert send_missing("POST", "/translate", json=FORMS).status_code == 200
    assert "the disk is gone" in capsys.readouterr().err


def test_a_model_is_loaded_anew_while_requests_end_with_the_old_one() -> None:
    old, engine = held_copier()
    models = [old, copier_of(train())]
    (direction,) = EN_DE.by_pair.values()

    async def translate_during_reload() -> list[str]:
        service = Service(EN_DE, ServerOptions(), lambda place: models.pop(0))

        async def translate(text: str) -> str:
            ((line,),) = await service.translate([text], [direction])
            return line.text

        before = asyncio.create_task(translate("A dog runs."))
        _, answer = await asyncio.to_thread(engine.searches.get)
        reload = asyncio.create_task(service.reload())
        with suppress(MtkitError):  # when it is closed, the new one is in use
            while old.submit([]):
                await asyncio.sleep(0)
        texts = [await translate("Why?")]
        answer()
        texts.append(await before)
        await reload
        service.close()
        return texts

    assert asyncio.run(translate_during_reload()) == ["Why?", "A dog runs."]
    with pytest.raises(MtkitError, match="closed"):
        old.submit(["Why?"])


def test_a_line_that_a_replaced_model_refuses_is_given_to_the_new_one() -> None:
    (direction,) = EN_DE.by_pair.values()

    async def translate_across_reload() -> str:
        loop = asyncio.get_running_loop()
        models = [copier_of(train()), copier_of(train())]

        class Replaced(Translator):
            """A translator whose model is replaced just before it is asked."""

            def submit(self, *arguments: Any, **options: Any) -> Future[list[Translation]]:
                asyncio.run_coroutine_threadsafe(service.reload(), loop).result()
                return super().submit(*arguments, **options)

        first = models[0]
        models[0] = Replaced(first.engine, first.tokenizer, first.request)
        service = Service(EN_DE, ServerOptions(), lambda place: models.pop(0))
        ((line,),) = await service.translate(["Why?"], [direction])
        service.close()
        return line.text

    assert asyncio.run(translate_across_reload()) == "Why?"


def test_nothing_that_a_client_sends_is_logged(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        running({"en-de": copier_of(train())}, EN_DE, access_log=True) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        client.post("/translate", json=FORMS | {"q": "SECRET"})
        client.post("/translate", json=FORMS | {"SECRET": "SECRET"})
        client.get("/SECRET", headers={"Authorization": "Bearer SECRET"})
        client.post("/translate", content=b"SECRET", headers={"Host": "SECRET"})
    captured = capfd.readouterr()
    assert "SECRET" not in captured.out + captured.err
    statuses = re.findall(r"^POST /translate (\d+) \d+ ms$", captured.err, re.MULTILINE)
    assert statuses == ["200", "200", "421"]


# ---- who ----


@pytest.mark.parametrize("host", ["localhost:5000", "127.0.0.1", "[::1]:80", "192.168.1.9:5000"])
def test_addresses_and_localhost_are_served(send: Send, host: str) -> None:
    assert send("GET", "/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:5000", "127.0.0.1.nip.io"]
)
def test_another_host_is_refused_because_dns_may_be_rebound(send: Send, host: str) -> None:
    assert send("POST", "/translate", json=FORMS, headers={"Host": host}).status_code == 421


def test_a_host_that_is_named_is_served() -> None:
    with application({}, EN_DE, hosts=["Translate.example"]) as send:
        assert send("GET", "/health", headers={"Host": "translate.example:80"}).status_code == 200


def test_with_keys_only_clients_that_have_one_are_served() -> None:
    with application({"en-de": copier_of(train())}, EN_DE, keys=[KEY, KEY[::-1]]) as send:
        for path in PATHS:
            for key in ("", "wrong", KEY[:-1], f"{KEY}0", "ключ"):
                header = {"Authorization": f"Bearer {key}".encode()}
                refused = send("POST", path, json=VALID_FIELDS[path], headers=header)
                assert refused.status_code == (401 if path.startswith("/v1/") else 403)
                assert message_of(refused) == "the key is missing or wrong"
            for scheme in ("Bearer", "DeepL-Auth-Key"):
                header = {"Authorization": f"{scheme} {KEY[::-1]}".encode()}
                answer = send("POST", path, json=VALID_FIELDS[path], headers=header)
                assert answer.status_code == 200
        assert send("POST", "/translate", json=FORMS | {"api_key": KEY}).status_code == 200
        assert send("GET", "/frontend/settings").json()["keyRequired"]
        wrong = {"Authorization": "DeepL-Auth-Key wrong"}
        assert send("GET", "/v2/usage", headers=wrong).status_code == 403
        assert send("GET", "/health").status_code == 200


def test_keys_come_from_a_pipe(tmp_path: Path) -> None:
    """As of `serve --keys <(pass show key)`, so that no file has them."""
    reader, writer = os.pipe()
    os.write(writer, f"{KEY}1\n".encode())
    os.close(writer)
    assert read_keys(Path(f"/dev/fd/{reader}")) == [f"{KEY}1"]
    os.close(reader)


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{KEY}1\n{KEY}2\n\n", encoding="utf-8")
    assert read_keys(file) == [f"{KEY}1", f"{KEY}2"]
    (tmp_path / "short").write_text(f"{KEY}\nshort", encoding="utf-8")
    for wrong in (tmp_path / "short", tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError, match="key"):
            read_keys(wrong)


def test_pages_of_other_sites_may_use_the_server_only_if_their_site_is_named(send: Send) -> None:
    origin = {"Origin": "https://example.org"}
    allow = "Access-Control-Allow-Origin"
    assert allow not in send("GET", "/health", headers=origin).headers
    with application({}, EN_DE, origins=["https://example.org"]) as named:
        assert named("GET", "/health", headers=origin).headers[allow] == "https://example.org"
        other = named("GET", "/health", headers={"Origin": "https://example.com"})
        assert allow not in other.headers
        method = {"Access-Control-Request-Method": "POST"}
        assert named("OPTIONS", "/translate", headers=origin | method).status_code == 200


OWN, OTHER, NAMED = "http://127.0.0.1:5000", "https://evil.example", "https://example.org"
"""The origins of the server's own page, and of pages of other sites."""
SIMPLE_TYPES = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"]
"""What a page may send anywhere without a question to the server (CORS preflight)."""
FOREIGN_HEADERS = [
    {"Origin": OTHER},
    {"Origin": "null"},
    {"Origin": OTHER, "Sec-Fetch-Site": "cross-site"},
    {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-site"},
    {"Origin": "http://127.0.0.1:8000"},
    {"Origin": "http://["},
    {"Sec-Fetch-Site": "cross-site"},
]
OWN_HEADERS: list[dict[str, str]] = [
    {},
    {"Origin": OWN},
    {"Origin": OWN, "Sec-Fetch-Site": "same-origin"},
    {"Origin": NAMED, "Sec-Fetch-Site": "same-origin"},  # a proxy has changed the Host header
    {"Sec-Fetch-Site": "none"},
]


def form_of(path: str) -> bytes:
    fields = {name: values for name, values in VALID_FIELDS[path].items() if name != "messages"}
    return urlencode(fields, doseq=True).encode()


@pytest.mark.parametrize("origins", [[], [NAMED]], ids=["no origin is allowed", "one is allowed"])
@pytest.mark.parametrize("path", PATHS)
def test_a_page_of_another_site_cannot_make_the_server_work(path: str, origins: list[str]) -> None:
    with application({"en-de": copier_of(train())}, EN_DE, origins=origins) as send:
        for foreign in FOREIGN_HEADERS:
            for media_type in SIMPLE_TYPES:
                headers = foreign | {"Content-Type": media_type}
                refusal = send("POST", path, content=form_of(path), headers=headers)
                assert refusal.status_code == 403
                assert "--allow-origin" in message_of(refusal)
            assert send("POST", path, json=VALID_FIELDS[path], headers=foreign).status_code == 403


def test_the_own_page_programs_and_pages_of_allowed_sites_are_answered() -> None:
    allowed = {"Origin": NAMED, "Sec-Fetch-Site": "cross-site"}
    for origins, others in (([], []), ([NAMED], [allowed]), (["*"], [allowed, *FOREIGN_HEADERS])):
        with application({"en-de": copier_of(train())}, EN_DE, origins=origins) as send:
            for headers in [*OWN_HEADERS, *others]:
                for content in ({"json": FORMS}, {"data": FORMS}):
                    answer = send("POST", "/translate", headers=headers, **content)
                    assert answer.status_code == 200


def test_an_address_that_is_in_use_is_refused() -> None:
    with listen(ServerOptions(port=0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port}: [^()]*; choose another"):
            listen(ServerOptions(port=port))


def test_a_response_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    """Nagle's algorithm is off for every connection."""
    with (
        listen(ServerOptions(port=0)) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# ---- which languages ----


def test_a_model_tells_its_languages_or_the_user_does(tmp_path: Path) -> None:
    known = write_model_with(tmp_path / "known", with_languages("en", "de-AT"))
    plain = write_model(tmp_path / "other", train(), transformer(), as_if_trained)
    directions = find_directions([str(known), f"de:French={plain}"])
    assert [each.path for each in directions.by_pair.values()] == ["en-de", "de-fr", "en-de-fr"]
    assert directions.languages.names == {"de": "German", "en": "English", "fr": "French"}
    with pytest.raises(UserError, match=r"languages of this model are unknown.*-m en:de="):
        find_directions([str(plain)])
    with pytest.raises(UserError, match="both translate en-de"):
        find_directions([str(known), f"en:de={plain}"])


def test_a_model_of_several_languages_serves_each_of_its_tags(tmp_path: Path) -> None:
    pieces = [piece_of_tag(tag) for tag in ("hau", "yor")]
    options: dict[str, Any] = {"normalization_rule_name": "identity", "control_symbols": pieces}
    tokenizer = train(vocab_size=300 + len(pieces), **options)
    model = write_model_with(tmp_path / "m", with_languages("en", "yo"), tokenizer)
    directions = find_directions([str(model)])
    assert list(directions.by_pair) == [("en", "ha"), ("en", "yo")]
    assert list(find_directions([f"en:yo={model}"]).by_pair) == [("en", "yo")]
    translator = load(model, scores=False)
    with application({str(model): translator}, directions) as send:
        for language, tag in (("ha", "hau"), ("yo", "yor")):
            answer = send("POST", "/translate", json=FORMS | {"target": language})
            assert answer.json()["translatedText"] == translator.translate(["Why?"], tag=tag)[0]


def test_alternatives_differ_from_the_translation_which_is_the_same_without_them(
    tmp_path: Path,
) -> None:
    model = write_model(tmp_path / "m", train(), transformer(), as_if_trained, beam=2)
    with application({"en-de": load(model, scores=False)}, EN_DE) as send:
        numbers = []
        for sentence in SENTENCES:
            plain = send("POST", "/translate", json=FORMS | {"q": sentence}).json()
            more = send("POST", "/translate", json=FORMS | {"q": sentence, "alternatives": 3})
            answer = more.json()
            assert answer["translatedText"] == plain["translatedText"]
            numbers.append(len(answer["alternatives"]))
            texts = [plain["translatedText"], *answer["alternatives"]]
            assert len(set(texts)) == len(texts)
        assert max(numbers) == 3


# ---- the command ----


def test_the_command_refuses_before_it_serves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("serve", "-m", str(tmp_path / "none")) == 2
    assert "holds no model" in capsys.readouterr().err
    (tmp_path / "keys").write_text("", encoding="utf-8")
    assert call("serve", "--keys", str(tmp_path / "keys")) == 2
    assert "must be a key" in capsys.readouterr().err
    find = "mtkit.extras.serve.command.find_spec"
    monkeypatch.setattr(find, lambda name: None if name == "torch" else name)
    assert call("serve", "--sample") == 2
    assert "--sample needs PyTorch" in capsys.readouterr().err
