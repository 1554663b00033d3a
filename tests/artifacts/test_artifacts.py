"""A folder with a manifest is complete and is what it says; anything else is nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from mtkit.artifacts.manifest import MANIFEST, Artifact, hash_file, hashes_of, open_artifact
from mtkit.artifacts.replacement import create
from mtkit.errors import UserError

SETTINGS = {"vocab_size": 8, "type": "bpe"}
INPUTS = {"corpus": "c0ffee"}


def request_of(settings: object) -> str:
    asked = {"kind": "tokenizer", "format": 2, "settings": settings, "inputs": INPUTS}
    return hashes_of(asked | {"files": {}})["request"]


def make(path: Path) -> Artifact:
    with create(path, "tokenizer", SETTINGS, INPUTS, {"lines": 3}) as folder:
        (folder / "spm.model").write_bytes(b"content")
    return open_artifact(path, "tokenizer")


def change_manifest(path: Path, **changes: object) -> None:
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps(manifest | changes))


def test_an_artifact_opens_as_it_was_written(tmp_path: Path) -> None:
    artifact = make(tmp_path / "tokenizer")
    assert artifact.manifest["settings"] == SETTINGS
    assert artifact.manifest["inputs"] == INPUTS
    assert artifact.report == {"lines": 3}
    digest = hash_file(artifact.path / "spm.model")
    assert artifact.manifest["files"] == {"spm.model": {"bytes": 7, "sha256": digest}}


def test_an_older_artifact_survives_a_failing_rebuild(tmp_path: Path) -> None:
    older = make(tmp_path / "tokenizer")
    with pytest.raises(KeyboardInterrupt), create(older.path, "tokenizer", {}, {}) as folder:
        (folder / "spm.model").write_bytes(b"newer")
        raise KeyboardInterrupt
    assert open_artifact(older.path, "tokenizer", verify=True).identity == older.identity
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer"]


def test_a_manifest_depends_neither_on_place_nor_on_time_nor_on_order(tmp_path: Path) -> None:
    one, other = make(tmp_path / "a" / "tokenizer"), make(tmp_path / "b" / "elsewhere")
    text = (one.path / MANIFEST).read_text()
    assert text == (other.path / MANIFEST).read_text()
    assert str(tmp_path) not in text and os.uname().nodename not in json.loads(text).values()
    assert request_of(dict(reversed(SETTINGS.items()))) == one.manifest["request"]


def test_a_request_is_the_sha256_of_sorted_json() -> None:
    script = (
        'printf \'{"format":2,"inputs":{"corpus":"c0ffee"},"kind":"tokenizer",'
        '"settings":{"type":"bpe","vocab_size":8}}\' | sha256sum'
    )
    shell = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert request_of(SETTINGS) == shell.stdout.split()[0]


def test_verifying_finds_a_flipped_byte(tmp_path: Path) -> None:
    path = make(tmp_path / "tokenizer").path
    (path / "spm.model").write_bytes(b"Content")
    open_artifact(path, "tokenizer")
    with pytest.raises(UserError, match=r"spm\.model is missing or damaged"):
        open_artifact(path, "tokenizer", verify=True)


@pytest.mark.parametrize("part", ["settings", "inputs", "files"])
def test_opening_finds_a_changed_manifest(tmp_path: Path, part: str) -> None:
    path = make(tmp_path / "tokenizer").path
    change_manifest(path, **{part: {}})
    with pytest.raises(UserError, match=r"manifest\.json is damaged"):
        open_artifact(path, "tokenizer")


@pytest.mark.parametrize("content", [b"conten", None])
def test_opening_finds_a_missing_file_or_another_size(
    tmp_path: Path, content: bytes | None
) -> None:
    path = make(tmp_path / "tokenizer").path
    (path / "spm.model").unlink()
    if content is not None:
        (path / "spm.model").write_bytes(content)
    with pytest.raises(UserError, match=r"spm\.model is missing"):
        open_artifact(path, "tokenizer")


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "sub/file", "..", "."])
def test_no_name_in_a_manifest_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    path = make(tmp_path / "tokenizer").path
    (tmp_path / "secret").write_bytes(b"1")
    change_manifest(path, files={name: {"bytes": 1, "sha256": hash_file(tmp_path / "secret")}})
    with pytest.raises(UserError):
        open_artifact(path, "tokenizer", verify=True)


@pytest.mark.parametrize("text", ["", "[]", "null", '{"kind": 1}', "{", "\x00", '"\\ud800"'])
def test_other_text_is_not_a_manifest(tmp_path: Path, text: str) -> None:
    path = make(tmp_path / "tokenizer").path
    (path / MANIFEST).write_text(text)
    with pytest.raises(UserError, match="manifest"):
        open_artifact(path, "tokenizer")


def test_another_kind_or_format_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "tokenizer").path
    with pytest.raises(UserError, match="should hold a model"):
        open_artifact(path, "model")
    change_manifest(path, format=99)
    with pytest.raises(UserError, match="format 99"):
        open_artifact(path, "tokenizer")
