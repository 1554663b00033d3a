"""An output replaces only a plain file that the user has named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mtkit.artifacts.output import check_output, open_output
from mtkit.errors import UserError

WRITE = """
import sys
from pathlib import Path
from mtkit.artifacts.output import open_output
with open_output(Path(sys.argv[1])) as (file, done):
    file.write(b"translation\\n")
"""


def write_to(path: Path, content: bytes = b"new\n") -> None:
    with open_output(path) as (file, _):
        file.write(content)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_an_open_file_is_a_link_and_not_replaced(tmp_path: Path, name: str) -> None:
    with (tmp_path / "log").open("wb") as file:
        command = [sys.executable, "-c", WRITE, name]
        ended = subprocess.run(command, stdout=file, stderr=subprocess.PIPE)
    assert ended.returncode == 1 and f"{name} is a link; give the file".encode() in ended.stderr
    assert (tmp_path / "log").read_bytes() == b""
    assert os.listdir(tmp_path) == ["log"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path, exists: bool) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    if exists:
        target.write_bytes(b"old\n")
    link.symlink_to("target")
    for act in (check_output, write_to):
        with pytest.raises(UserError, match=rf"link is a link; give the file itself, {target}"):
            act(link)
    assert os.readlink(link) == "target"
    assert target.exists() == exists
    if exists:
        assert target.read_bytes() == b"old\n"


def test_a_device_is_written_to_and_stays_a_device() -> None:
    before = os.lstat("/dev/null")
    write_to(Path("/dev/null"))
    assert os.lstat("/dev/null").st_ino == before.st_ino


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_a_replaced_file_keeps_its_permissions_and_owner(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(b"old\n")
    path.chmod(mode)
    before = path.stat()
    write_to(path)
    after = path.stat()
    assert path.read_bytes() == b"new\n"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


def test_a_write_protected_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(b"old\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write every file
    with pytest.raises(UserError, match=r"out\.txt cannot be written \(it is write-protected\)"):
        write_to(path)
    assert path.read_bytes() == b"old\n"


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_the_file_of_a_standard_stream_is_refused(tmp_path: Path, stream: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old\n")
    command = [sys.executable, "-c", WRITE, str(path)]
    with path.open("rb+") as file:
        file.seek(0, os.SEEK_END)
        match stream:
            case "stdin":
                done = subprocess.run(command, stdin=file, capture_output=True)
            case "stdout":
                done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE)
            case _:
                done = subprocess.run(command, stderr=file, stdout=subprocess.PIPE)
    assert done.returncode != 0
    messages = path.read_bytes() + (done.stderr or b"")
    assert messages.startswith(b"old\n")
    assert f"{path} is {stream} of this command".encode() in messages
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder; give a file"):
        write_to(tmp_path)


def test_nothing_is_written_through_a_link_in_the_place_of_the_temporary_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "target").write_bytes(b"old\n")
    (tmp_path / ".out.partial").symlink_to("target")
    with pytest.raises(UserError, match="cannot be written"):
        write_to(tmp_path / "out")
    assert (tmp_path / "target").read_bytes() == b"old\n"


def test_a_pipe_in_the_place_of_the_temporary_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".out.partial")
    with pytest.raises(UserError, match="cannot be written"):
        write_to(tmp_path / "out")
