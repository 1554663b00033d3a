"""mtkit replaces and deletes only what it has written: files of the user survive every command."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtkit.artifacts.manifest import MANIFEST, open_artifact
from mtkit.artifacts.replacement import create, remove
from mtkit.artifacts.runs import (
    CHECKPOINTS,
    INDEX,
    LATEST,
    LOCK,
    METRICS_FILE,
    SETTINGS,
    SETTINGS_HEADER,
    locked,
    save_config,
)
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.errors import UserError
from mtkit.pipeline import run
from mtkit.training.train import train

Fresh = Callable[..., Config]


def write(path: Path, text: str = "my only copy\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """Return the content of every file below a folder, and where every link leads."""
    contents: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            contents[name] = os.readlink(path)
        elif path.is_file():
            contents[name] = path.read_bytes()
        else:
            contents[name] = "folder"
    return contents


def make(path: Path, content: str = "old", names: tuple[str, ...] = ("spm.model",)) -> None:
    with create(path, "tokenizer", {"content": content}, {}) as folder:
        for name in names:
            (folder / name).write_text(content)


def content_of(path: Path) -> str:
    return str(open_artifact(path, "tokenizer", verify=True).manifest["settings"]["content"])


def put_link(path: Path) -> None:
    write(path.with_name("elsewhere") / "thesis.txt")
    path.symlink_to("elsewhere")


FOREIGN: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a folder": ("model", lambda path: write(path / "thesis.bin")),
    "a folder of a later stage": ("test", lambda path: write(path / "news.en")),
    "a file": ("batches", write),
    "a link": ("tokenizer", put_link),
    "the manifest of another program": (
        "test",
        lambda path: write(path / MANIFEST, '{"name": "my web page"}'),
    ),
    "an artifact of another kind": ("model", make),
    "an unreadable manifest of another program": (
        "test",
        lambda path: write(path / MANIFEST, "{ // my web page"),
    ),
    "a checkpoint": (f"{CHECKPOINTS}/step-00000010", lambda path: write(path / "notes.txt")),
    "a checkpoint of another program": (
        f"{CHECKPOINTS}/step-00000500",
        lambda path: write(path / MANIFEST, '{"name": "other"}'),
    ),
    "a config": (SETTINGS, lambda path: write(path, "run: .  # my comment\n")),
    "a link to a config": (SETTINGS, put_link),
    "metrics": (METRICS_FILE, lambda path: write(path, '{"step": 1, "loss": 0.5}\n')),
    "metrics of another program": (
        METRICS_FILE,
        lambda path: write(path, '{"kind": "eval", "name": "my experiment"}\n'),
    ),
    "an index": (f"{CHECKPOINTS}/{INDEX}", lambda path: write(path, "[]")),
    "a file of checkpoints": (CHECKPOINTS, write),
    "a folder that is named like a draft": (".model.partial", lambda path: write(path / "a")),
    "a folder that is named like an old artifact": (".test.old", lambda path: write(path / "a")),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_command_stops_where_something_of_the_users_is(
    case: str, fresh: Fresh, tmp_path: Path
) -> None:
    name, put = FOREIGN[case]
    folder = tmp_path / "home"
    folder.mkdir()
    put(folder / name)
    config = fresh("transformer").model_copy(update={"run": str(folder)})
    before = snapshot(folder)
    with pytest.raises(UserError, match=rf"{name} was not written by mtkit; move it"):
        run(config)
    assert snapshot(folder) == before


def test_an_empty_folder_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    make(tmp_path / "tokenizer")
    assert content_of(tmp_path / "tokenizer") == "old"
    assert os.listdir(tmp_path) == ["tokenizer"]


def test_files_and_folders_of_the_user_move_to_the_artifact_that_replaces_theirs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tokenizer"
    make(path, "old", ("spm.model", "spm.vocab"))
    write(path / "README.md", "a model card")
    write(path / "outputs" / "other-system.txt")
    (path / "paper.pdf").symlink_to("/somewhere/paper.pdf")
    make(path, "new")
    assert content_of(path) == "new"
    assert (path / "README.md").read_text() == "a model card"
    assert (path / "outputs" / "other-system.txt").read_text() == "my only copy\n"
    assert os.readlink(path / "paper.pdf") == "/somewhere/paper.pdf"
    assert not (path / "spm.vocab").exists()
    assert os.listdir(tmp_path) == ["tokenizer"]


def test_a_file_of_the_user_is_never_replaced_by_a_new_file_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer"
    make(path)
    write(path / "spm.source.model")
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match=r"spm\.source\.model was not written by mtkit"):
        make(path, "new", ("spm.source.model", "spm.target.model"))
    assert snapshot(tmp_path) == before


def test_a_link_to_an_artifact_is_renamed_but_what_it_leads_to_stays(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere" / "tokenizer")
    before = snapshot(tmp_path / "elsewhere")
    link = tmp_path / "tokenizer"
    link.symlink_to("elsewhere/tokenizer")
    remove(link)
    assert snapshot(tmp_path / "elsewhere") == before
    make(link, "new")
    assert content_of(link) == "new"


def test_a_write_protected_folder_of_the_user_stops_before_anything_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokenizer"
    make(path)
    write(path / "photos" / "a.png")
    before = snapshot(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(UserError, match="photos is write-protected"):
        make(path, "new")
    assert snapshot(tmp_path) == before


def test_a_run_is_known_by_its_lock_or_else_by_the_first_line_of_its_config(fresh: Fresh) -> None:
    config = fresh("transformer")
    folder, saved = Path(config.run), Path(config.run, SETTINGS)
    (folder / LOCK).unlink()
    for own in ("# mine\n" + dump_config(config), dump_config(config), SETTINGS_HEADER[:-9]):
        saved.write_text(own)
        foreign = pytest.raises(UserError, match=r"config\.yaml was not written by mtkit")
        with foreign, locked(folder):
            pass
        assert saved.read_text() == own
    saved.write_text(SETTINGS_HEADER)  # as in a copy without hidden files
    with locked(folder):
        pass
    assert (folder / LOCK).is_file()
    saved.write_text("# mine\n")
    with locked(folder):
        save_config(config)
    assert saved.read_text() == SETTINGS_HEADER + dump_config(config)


@pytest.mark.parametrize("name", [SETTINGS, METRICS_FILE, f"{CHECKPOINTS}/{INDEX}"])
@pytest.mark.parametrize("put", [put_link, lambda path: write(path / "a")], ids=["link", "folder"])
def test_a_link_or_folder_is_foreign_also_in_a_run(
    name: str, put: Callable[[Path], None], tmp_path: Path
) -> None:
    with locked(tmp_path):
        (tmp_path / CHECKPOINTS).mkdir()
    put(tmp_path / name)
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match=rf"{name} was not written by mtkit"), locked(tmp_path):
        pass
    assert snapshot(tmp_path) == before


def test_a_foreign_folder_that_is_named_like_a_draft_stops_training_before_it_begins(
    fresh: Fresh,
) -> None:
    config = fresh("transformer", training={"steps": 2})
    write(Path(config.run, CHECKPOINTS, ".step-00000002.partial", "a"))
    with pytest.raises(UserError, match=r"step-00000002\.partial was not written by mtkit"):
        train(config)
    assert not Path(config.run, METRICS_FILE).exists()


@pytest.mark.parametrize("act", [remove, make])
def test_a_manifest_that_cannot_be_read_now_is_not_a_damaged_one(
    act: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when too many files are open, or a network file system fails for a moment."""
    artifact = tmp_path / "tokenizer"
    make(artifact)
    before = snapshot(artifact)
    read = Path.read_text

    def fail(self: Path, *arguments: Any, **named: Any) -> str:
        if self == artifact / MANIFEST:
            raise OSError(errno.EMFILE, "Too many open files", str(self))
        return read(self, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", fail)
        with pytest.raises(OSError, match="Too many open files"):
            act(artifact)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer"]
    assert snapshot(artifact) == before
    act(artifact)


@pytest.mark.parametrize("text", ["", "{", '{"kind": "tokenizer"}'])
def test_a_folder_whose_manifest_is_damaged_is_kept_under_another_name(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokenizer"
    for number, name in enumerate(("tokenizer.damaged", "tokenizer.damaged-2")):
        make(path)
        write(path / "NOTES.txt", str(number))
        (path / MANIFEST).write_text(text)
        before = snapshot(path)
        make(path, "new")
        assert content_of(path) == "new"
        aside = tmp_path / name
        assert snapshot(aside) == before
        assert str(aside) in capsys.readouterr().err
        remove(path)


def test_a_folder_that_is_removed_gets_another_name_if_the_user_has_put_files_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tokenizer"
    for number in (1, 2):
        make(path)
        write(path / "NOTES.txt", f"note {number}")
        remove(path)
    make(path, "new")
    assert content_of(path) == "new"
    for number, name in enumerate(("tokenizer.kept", "tokenizer.kept-2"), start=1):
        kept = tmp_path / name
        assert snapshot(kept) == {"NOTES.txt": f"note {number}".encode()}


def test_training_keeps_what_the_user_has_put_among_the_checkpoints(fresh: Fresh) -> None:
    config = fresh("transformer", training={"keep": 1, "average": 1, "best_by": "step"})
    folder = Path(config.run, CHECKPOINTS)
    notes = [folder / "NOTES.txt", folder / ".mine.old" / "a", folder / ".mine.partial" / "a"]
    for note in notes:
        write(note)
    train(config)
    for note in notes:
        assert note.read_text() == "my only copy\n"
    assert len(list(folder.glob("step-*"))) == 1


def test_a_link_that_is_named_latest_but_leads_to_no_run_stays(
    fresh: Fresh, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = fresh("transformer", training={"steps": 1})
    write(tmp_path / "other" / "file")
    LATEST.parent.mkdir()
    LATEST.symlink_to("../other")
    train(config)
    assert os.readlink(LATEST) == "../other"
    assert f"{LATEST} is not a link to a run" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["latest", "nowhere"])
def test_a_link_in_a_circle_or_to_nothing_is_replaced(fresh: Fresh, target: str) -> None:
    config = fresh("transformer", training={"steps": 1})
    LATEST.parent.mkdir()
    LATEST.symlink_to(target)
    train(config)
    assert LATEST.samefile(config.run)


def test_a_link_that_cannot_be_set_leaves_nothing_behind(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = fresh("transformer", training={"steps": 1})
    rename = Path.replace

    def refuse(path: Path, target: Path) -> Path:
        if target == LATEST:
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", refuse)
    train(config)
    assert os.listdir(LATEST.parent) == []
    assert f"{LATEST} cannot be written (Permission denied)" in capsys.readouterr().err


def test_a_run_of_mtkit_can_be_locked_again_after_any_interruption(tmp_path: Path) -> None:
    with locked(tmp_path):
        pass
    starts = {SETTINGS: SETTINGS_HEADER, METRICS_FILE: '{"kind": "tr'}
    for name, start in starts.items():
        for length in (0, 1, len(start)):
            (tmp_path / name).write_text(start[:length])
            with locked(tmp_path):
                assert (tmp_path / name).read_text() == start[:length]
