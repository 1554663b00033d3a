"""Glossaries of a server: those that it starts with, and those that DeepL's clients create."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import deepl
import pytest

from folders import SENTENCES, copier_of, train
from mtkit.errors import UserError
from mtkit.extras.serve import deepl as interface
from mtkit.extras.serve.directions import open_glossaries
from servers import Running, Send, application, directions_of, running

DIRECTIONS = directions_of("en-de", "de-fr", "en-de-fr")
TERMS = {"dog": "Hund", "Why": "Warum"}
ENTRIES = "dog\tHund\nWhy\tWarum\n"
KEY = "0123456789abcdef"
FIELDS = {"name": "dogs", "source_lang": "en", "target_lang": "DE", "entries": ENTRIES}
"""What creates a glossary."""


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    copier = copier_of(train())
    with running({"en-de": copier, "de-fr": copier}, DIRECTIONS) as server:
        yield server


@pytest.fixture
def send() -> Iterator[Send]:
    with application({"en-de": copier_of(train())}, directions_of("en-de"), keys=[KEY]) as send:
        yield send


def test_the_glossary_of_a_pair_is_used_by_its_model_only(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text("en\tde\n" + ENTRIES, encoding="utf-8")
    opened = open_glossaries(DIRECTIONS, [f"EN:de_AT={file}"])
    copier = copier_of(train([*SENTENCES, "A Hund runs."]))
    texts = {"en-de": "A Hund runs.", "de-fr": "A dog runs.", "en-fr": "A Hund runs."}
    with application({"en-de": copier, "de-fr": copier}, DIRECTIONS, glossaries=opened) as send:
        for pair, expected in texts.items():
            source, target = pair.split("-")
            fields = {"q": "A dog runs.", "source": source, "target": target}
            assert send("POST", "/translate", json=fields).json()["translatedText"] == expected
    for wrong in (str(file), f"en:ko={file}", f"en:fr={file}", "en:de=none"):
        with pytest.raises(UserError):
            open_glossaries(DIRECTIONS, [wrong])


def test_the_client_of_deepl_creates_lists_uses_and_deletes_a_glossary(server: Running) -> None:
    client = deepl.DeepLClient("none", server_url=server.url)
    pairs = [(each.source_lang, each.target_lang) for each in client.get_glossary_languages()]
    assert pairs == [("en", "de"), ("de", "fr")]
    created = client.create_glossary("dogs", "EN", "DE", TERMS)
    (listed,) = client.list_glossaries()
    assert (listed.glossary_id, listed.name) == (created.glossary_id, "dogs")
    assert (created.source_lang, created.target_lang, created.entry_count) == ("EN", "DE", 2)

    def translate(text: str, glossary: deepl.GlossaryInfo | None, source: str, target: str) -> str:
        answer = client.translate_text(
            text, source_lang=source, target_lang=target, glossary=glossary
        )
        assert isinstance(answer, deepl.TextResult)
        return answer.text

    assert translate("A dog runs.", created, "EN", "DE") == "A Hund runs."
    assert translate("A dog runs.", None, "EN", "DE") == "A dog runs."
    with pytest.raises(deepl.DeepLException, match="the glossary is for en-de"):
        client.translate_text(
            "Why?", source_lang="DE", target_lang="FR", glossary=created.glossary_id
        )
    client.delete_glossary(created)
    assert client.list_glossaries() == []
    for unknown in (created.glossary_id, "none"):
        with pytest.raises(deepl.GlossaryNotFoundException):
            client.delete_glossary(unknown)
    client.close()  # type: ignore[no-untyped-call]


def test_alternatives_have_the_terms_of_the_glossary(send: Send) -> None:
    key = {"Authorization": f"DeepL-Auth-Key {KEY}"}
    created = send("POST", "/v2/glossaries", json=FIELDS, headers=key).json()
    fields = {"q": "A dog runs.", "source": "en", "target": "de", "alternatives": 2}
    chosen = {"glossary_id": created["glossary_id"]}
    answer = send("POST", "/translate", json=fields | chosen, headers=key).json()
    assert len(answer["alternatives"]) == 2
    assert all("Hund" in text for text in answer["alternatives"])


def test_glossaries_of_clients_are_bounded_need_a_key_and_have_entries(
    send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interface, "MAX_GLOSSARIES", 2)
    key = {"Authorization": f"DeepL-Auth-Key {KEY}"}

    def create(**changes: str) -> int:
        return send("POST", "/v2/glossaries", json=FIELDS | changes, headers=key).status_code

    for wrong in ("", "dog", "dog\tHund\n\tKatze"):
        assert create(entries=wrong) == 400
    assert create(target_lang="FR") == 400
    assert [create(), create(), create()] == [201, 201, interface.QUOTA_EXCEEDED]
    assert send("GET", "/v2/glossaries").status_code == 403
    listed = send("GET", "/v2/glossaries", headers=key).json()["glossaries"]
    path = f"/v2/glossaries/{listed[0]['glossary_id']}"
    assert send("DELETE", path).status_code == 403
    elsewhere = {"Origin": "https://evil.example"}
    assert send("DELETE", path, headers=key | elsewhere).status_code == 403
    assert send("DELETE", path, headers=key).status_code == 204
    assert create() == 201
