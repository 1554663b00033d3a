"""A folder with a manifest is complete and is what it says; anything else is nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.artifacts.manifest import (
    MANIFEST,
    Artifact,
    create,
    hash_file,
    hashes_of,
    kind_at,
    open_artifact,
)
from mtkit.errors import UserError

SETTINGS = {"vocab_size": 8, "type": "bpe"}
INPUTS = {"corpus": "c0ffee"}


def request_of(kind: str, settings: object, inputs: object) -> str:
    asked = {"kind": kind, "format": 2, "settings": settings, "inputs": inputs}
    return hashes_of(asked | {"files": {}})["request"]


def make(path: Path, content: bytes = b"content") -> Artifact:
    with create(path, "tokenizer", SETTINGS, INPUTS, {"lines": 3}) as folder:
        (folder / "spm.model").write_bytes(content)
    return open_artifact(path, "tokenizer")


def test_what_was_written_is_what_is_opened(tmp_path: Path) -> None:
    artifact = make(tmp_path / "tokenizer")
    assert artifact.manifest["settings"] == SETTINGS
    assert artifact.manifest["inputs"] == INPUTS
    assert artifact.report == {"lines": 3}
    assert artifact.manifest["files"] == {
        "spm.model": {"bytes": 7, "sha256": hash_file(artifact.path / "spm.model")}
    }


def test_an_exception_leaves_nothing_behind(tmp_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        create(tmp_path / "tokenizer", "tokenizer", SETTINGS, INPUTS) as folder,
    ):
        (folder / "spm.model").write_bytes(b"half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_an_older_artifact_survives_a_failing_rebuild(tmp_path: Path) -> None:
    older = make(tmp_path / "tokenizer")
    with pytest.raises(KeyboardInterrupt), create(older.path, "tokenizer", {}, {}) as folder:
        (folder / "spm.model").write_bytes(b"newer")
        raise KeyboardInterrupt
    again = open_artifact(older.path, "tokenizer", verify=True)
    assert again.identity == older.identity
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer"]


KILLED = """
import os, signal, sys
from pathlib import Path
from mtkit.artifacts.manifest import create
with create(Path(sys.argv[1]), "tokenizer", {}, {}) as folder:
    (folder / "spm.model").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_in_the_middle_is_nothing_and_the_next_try_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert killed.returncode < 0
    assert kind_at(path) is None
    with pytest.raises(UserError, match="mtkit train-spm"):
        open_artifact(path, "tokenizer")
    make(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["tokenizer"]


def test_request_and_identity_do_not_depend_on_place_or_order(tmp_path: Path) -> None:
    here, there = make(tmp_path / "a" / "tokenizer"), make(tmp_path / "b" / "elsewhere")
    assert here.manifest["request"] == there.manifest["request"]
    assert here.identity == there.identity
    assert (here.path / MANIFEST).read_bytes() == (there.path / MANIFEST).read_bytes()
    reordered = dict(reversed(SETTINGS.items()))
    assert request_of("tokenizer", SETTINGS, INPUTS) == request_of("tokenizer", reordered, INPUTS)
    assert request_of("tokenizer", SETTINGS, INPUTS) == here.manifest["request"]


def test_request_is_the_same_on_any_machine() -> None:
    """Computed elsewhere by the rule: sha256 of sorted JSON without blanks, in UTF-8."""
    script = (
        'printf \'{"format":2,"inputs":{"corpus":"c0ffee"},"kind":"tokenizer",'
        '"settings":{"type":"bpe","vocab_size":8}}\' | sha256sum'
    )
    shell = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert request_of("tokenizer", SETTINGS, INPUTS) == shell.stdout.split()[0]


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none() | st.booleans()))
def test_other_settings_are_another_request(settings: dict[str, object]) -> None:
    same = request_of("model", settings, {}) == request_of("model", {"steps": 5}, {})
    assert same == (settings == {"steps": 5} and not isinstance(settings["steps"], bool))


def test_a_flipped_byte_is_found_when_verifying(tmp_path: Path) -> None:
    path = make(tmp_path / "tokenizer").path
    (path / "spm.model").write_bytes(b"Content")
    open_artifact(path, "tokenizer")
    with pytest.raises(UserError, match=r"spm\.model: damaged"):
        open_artifact(path, "tokenizer", verify=True)


@pytest.mark.parametrize(("part", "value"), [("settings", {}), ("inputs", {}), ("files", {})])
def test_a_manifest_changed_by_hand_is_found_when_verifying(
    tmp_path: Path, part: str, value: object
) -> None:
    path = make(tmp_path / "tokenizer").path
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps(manifest | {part: value}))
    with pytest.raises(UserError, match=r"manifest\.json: damaged"):
        open_artifact(path, "tokenizer", verify=True)


@pytest.mark.parametrize("content", [b"conten", b"contents", None])
def test_a_file_of_another_size_or_none_is_found_always(
    tmp_path: Path, content: bytes | None
) -> None:
    path = make(tmp_path / "tokenizer").path
    (path / "spm.model").unlink()
    if content is not None:
        (path / "spm.model").write_bytes(content)
    with pytest.raises(UserError, match=r"spm\.model: missing or of another size"):
        open_artifact(path, "tokenizer")


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "sub/file", "..", "."])
def test_names_in_a_manifest_cannot_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    path = make(tmp_path / "tokenizer").path
    (tmp_path / "secret").write_bytes(b"1")
    manifest = json.loads((path / MANIFEST).read_text())
    manifest["files"] = {name: {"bytes": 1, "sha256": hash_file(tmp_path / "secret")}}
    (path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(UserError):
        open_artifact(path, "tokenizer", verify=True)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"kind": 1}', "{", "\x00", '{"kind": "tokenizer"}']
)
def test_what_is_no_manifest_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = make(tmp_path / "tokenizer").path
    (path / MANIFEST).write_text(text)
    with pytest.raises(UserError) as refused:
        open_artifact(path, "tokenizer")
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_another_kind_or_format_is_refused_by_name(tmp_path: Path) -> None:
    path = make(tmp_path / "tokenizer").path
    with pytest.raises(UserError, match="expected kind model, found tokenizer"):
        open_artifact(path, "model")
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(UserError, match="format 99"):
        open_artifact(path, "tokenizer")


def test_nothing_in_an_artifact_tells_where_or_when_it_was_made(tmp_path: Path) -> None:
    text = (make(tmp_path / "tokenizer").path / MANIFEST).read_text()
    assert str(tmp_path) not in text
    assert os.uname().nodename not in json.loads(text).values()
