"""Whatever the disk does, and whenever the process dies: one line, nothing lost, and a way on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from mtkit.artifacts.manifest import Kind, clear_leftovers, create, kind_at, open_artifact, remove
from mtkit.artifacts.runs import save_config
from mtkit.batching.build import build_batches, open_batches
from mtkit.cli.main import main
from mtkit.config.settings import Config
from mtkit.decoding.api import Translator
from mtkit.errors import MtkitError, UserError
from mtkit.pipeline import run
from mtkit.tokenizer.train import train_tokenizer
from mtkit.training.train import train
from tasks import tiny_config, write_reversal_task

pytestmark = pytest.mark.slow
KINDS: tuple[Kind, ...] = ("tokenizer", "batches", "model", "test")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, its config, and everything that `mtkit run` makes of it."""
    folder = tmp_path_factory.mktemp("finished")
    write_reversal_task(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run(config_in(folder))
    return folder


@pytest.fixture
def here(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the working directory."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config_in(folder: Path) -> Config:
    """Its run is `folder`/run, by a relative name, so that copies know nothing of each other."""
    return tiny_config(Path(), "transformer", training={"steps": 4, "validate_every": 2})


def identities(folder: Path) -> dict[str, str]:
    return {
        kind: open_artifact(folder / "run" / kind, kind, verify=True).identity for kind in KINDS
    }


def failure_of(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and the last line of stderr of a command that has to fail."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    errors = capsys.readouterr().err
    assert "Traceback" not in errors and "internal error" not in errors
    assert isinstance(end.value.code, int)
    return end.value.code, errors.splitlines()[-1]


# Killed between any two changes of the disk


def survive_at(moment: int, work: Callable[[], None]) -> bool:
    """Does `work` in a process that is killed before its `moment`th access to the disk, if any."""
    if (child := os.fork()) == 0:
        accesses = count()

        def audit(event: str, _: object) -> None:
            if event.startswith(("os.", "open", "shutil.")) and next(accesses) == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(audit)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert end in (0, -signal.SIGKILL)
    return end == 0


def make(path: Path, content: str) -> None:
    with create(path, "tokenizer", {"content": content}, {}) as folder:
        (folder / "one.txt").write_text(content)
        (folder / "two.txt").write_text(content)


def content_of(path: Path) -> str:
    return str(open_artifact(path, "tokenizer", verify=True).manifest["settings"]["content"])


def test_killed_at_any_moment_the_older_artifact_is_there_or_the_newer(tmp_path: Path) -> None:
    seen = set()
    for moment in count():
        path = tmp_path / str(moment) / "tokenizer"
        make(path, "older")
        survived = survive_at(moment, lambda path=path: make(path, "newer"))  # type: ignore[misc]
        with pytest.raises(ZeroDivisionError), create(path, "tokenizer", {}, {}):
            raise ZeroDivisionError  # the next try fails for a reason of its own
        seen.add(content_of(path))
        make(path, "newest")
        assert content_of(path) == "newest"
        assert [entry.name for entry in path.parent.iterdir()] == ["tokenizer"]
        if survived:
            break
    assert seen == {"older", "newer"}
    assert moment > 20


def test_killed_at_any_moment_a_deleted_artifact_is_whole_or_gone(tmp_path: Path) -> None:
    seen = set()
    for moment in count():
        path = tmp_path / str(moment) / "tokenizer"
        make(path, "whole")
        survived = survive_at(moment, lambda path=path: remove(path))  # type: ignore[misc]
        seen.add(content_of(path) if kind_at(path) else "gone")
        clear_leftovers(path.parent)
        remove(path)
        assert list(path.parent.iterdir()) == []
        if survived:
            break
    assert seen == {"whole", "gone"}


# A disk that is full, or not to be written to


LIMITED = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from mtkit.cli.main import main
main(sys.argv[2:])
"""


@pytest.mark.parametrize(
    ("command", "limit", "lost"),
    [("train-spm", 100_000, KINDS), ("batch", 4_000, KINDS[1:]), ("train", 40_000, KINDS[2:])],
)
def test_a_disk_that_fills_up_costs_nothing_but_the_rerun(
    here: Path, command: str, limit: int, lost: tuple[str, ...]
) -> None:
    before = identities(here)
    for kind in lost:
        shutil.rmtree(here / "run" / kind)
    if "model" in lost:
        shutil.rmtree(here / "run" / "checkpoints")
    kept = sorted(path.name for path in (here / "run").iterdir())
    limited = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), command, "-c", "run/config.yaml"],
        capture_output=True,
        text=True,
    )
    assert limited.returncode == 1
    line = limited.stderr.splitlines()[-1]
    assert "run/" in line and ("File too large" in line or "disk full" in line)
    assert "Traceback" not in limited.stderr and "internal error" not in limited.stderr
    after = {path.name for path in (here / "run").iterdir()}
    assert after - {".lock", "checkpoints"} == set(kept) - {".lock"}
    run(config_in(here))
    assert identities(here) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte, where this machine lets us make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_on_a_full_disk_the_older_artifact_stays_and_the_next_try_succeeds(
    small_disk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small_disk)
    write_reversal_task(Path())
    config = config_in(small_disk)
    older = train_tokenizer(config).identity
    (small_disk / "ballast").write_bytes(bytes(650_000))
    changed = config.model_copy(update={"seed": 2})
    save_config(changed)
    code, line = failure_of("train-spm", "-c", "run/config.yaml", capsys=capsys)
    assert (code, line) == (1, "run/tokenizer: No space left on device")
    assert open_artifact(Path("run/tokenizer"), "tokenizer", verify=True).identity == older
    assert {path.name for path in Path("run").iterdir()} <= {"config.yaml", "tokenizer", ".lock"}
    (small_disk / "ballast").unlink()
    assert train_tokenizer(changed).identity != older


def test_a_finished_run_that_cannot_be_written_to_is_up_to_date(
    here: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_in(here).model_copy(update={"run": str(small_disk / "run")})
    for kind in ("tokenizer", "batches", "model"):
        shutil.copytree(here / "run" / kind, small_disk / "run" / kind)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    train_tokenizer(config)
    build_batches(config)
    train(config)
    assert capsys.readouterr().err.count("up to date") == 3
    assert Translator.load(config.run).translate(["ant bee"])
    with pytest.raises(MtkitError, match=r"cannot write a run there \(Read-only file system\)"):
        train_tokenizer(config.model_copy(update={"seed": 2}))
    assert train_tokenizer(config).report


# Files that are cut, changed or gone


def flip(file: Path) -> None:
    """Changes a bit in the middle; of a manifest in a hash, as its report is under none."""
    content = bytearray(file.read_bytes())
    label = b'"request": "'
    is_manifest = file.name == "manifest.json"
    content[content.index(label) + len(label) if is_manifest else len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES: dict[str, Callable[[Path], None]] = {"flip": flip, "cut": cut, "delete": Path.unlink}
CASES = [
    ("tokenizer/spm.model", "flip"),
    ("tokenizer/spm.vocab", "cut"),
    ("tokenizer/manifest.json", "delete"),
    ("batches/train.uint16", "flip"),
    ("batches/train.lengths.npy", "delete"),
    ("batches/report.json", "cut"),
    ("batches/manifest.json", "flip"),
    ("model/model.safetensors", "flip"),
    ("model/config.json", "delete"),
    ("model/manifest.json", "cut"),
    ("test/hypotheses.txt", "flip"),
    ("test/manifest.json", "cut"),
]


@pytest.mark.parametrize(("file", "damage"), CASES)
def test_damage_is_named_when_verifying_and_mended_by_running_again(
    here: Path, file: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = identities(here)
    DAMAGES[damage](here / "run" / file)
    folder = Path("run", file).parent
    code, line = failure_of("info", "--verify", str(folder), capsys=capsys)
    assert code == 2
    assert str(folder) in line
    run(config_in(here))
    assert identities(here) == before


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "spm.model", "manifest.json"])
def test_a_damaged_model_translates_nothing(
    here: Path, file: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGES[damage](here / "run" / "model" / file)
    code, line = failure_of("translate", "-m", "run", capsys=capsys)
    assert code == 2
    assert "run" in line


@pytest.mark.parametrize("damage", ["cut", "delete"])
@pytest.mark.parametrize("file", ["train.uint16", "train.lengths.npy", "valid.source.txt"])
def test_batches_that_lack_something_are_not_trained_on(here: Path, file: str, damage: str) -> None:
    DAMAGES[damage](here / "run" / "batches" / file)
    with pytest.raises(UserError, match=file):
        open_batches(Path("run/batches"))


def test_a_damaged_tokenizer_encodes_nothing(here: Path) -> None:
    shutil.rmtree("run/batches")
    flip(here / "run" / "tokenizer" / "spm.model")
    with pytest.raises(UserError, match=r"spm\.model: damaged"):
        build_batches(config_in(here))
