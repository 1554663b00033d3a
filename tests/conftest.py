"""What all tests share: signatures that are checked, no home, and runs ready for training."""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import hypothesis
import pytest
from jaxtyping import install_import_hook

import signatures

install_import_hook("mtkit", "signatures.checked")

# What a shell starts with & ignores Ctrl-C, what nohup starts SIGHUP, and hands that on: here to
# every command that a test starts in order to interrupt it.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The same examples in every run, and no verdict that depends on how fast the machine is.
hypothesis.settings.register_profile(
    "mtkit",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.function_scoped_fixture,
    ],
)
hypothesis.settings.load_profile("mtkit")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """No test knows which others ran before it: what they drew, looked at, or wanted quiet."""
    from mtkit.report import set_quiet

    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    signatures.look_again()
    set_quiet(False)
    if files := sys.modules.get("mtkit.corpus.files"):
        files._warn_once.cache_clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with the most slow tests first: a worker that begins with one late is waited for."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@pytest.fixture(scope="session", autouse=True)
def _away_from_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test sees or changes what the person who runs it has, nor waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)  # nobody pulls a plug
        for variable in ("MTKIT_MODEL", "RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_NTASKS"):
            patch.delenv(variable, raising=False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        patch.setenv("HF_HOME", str(tmp_path_factory.getbasetemp() / "huggingface"))
        patch.chdir(tmp_path_factory.mktemp("here"))  # a training names itself in runs/latest
        yield


if TYPE_CHECKING:
    from commands import Stdin
    from mtkit.config.settings import Config


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Stdin:
    """The standard input of commands that are called in this process."""

    def give(content: BinaryIO | str | None) -> None:
        stream = io.BytesIO(content.encode()) if isinstance(content, str) else content
        monkeypatch.setattr(sys, "stdin", stream and io.TextIOWrapper(stream))

    return give


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the corpus, and a run with its tokenizer and batches."""
    from mtkit.batching.build import build_batches
    from mtkit.tokenizer.train import train_tokenizer
    from tasks import tiny_config, write_reversal_task

    folder = tmp_path_factory.mktemp("task")
    write_reversal_task(folder)
    config = tiny_config(folder, "transformer")
    train_tokenizer(config)
    build_batches(config)
    return folder


@pytest.fixture
def fresh(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Config]:
    """Makes configs of runs that have everything but the training."""
    from tasks import tiny_config

    monkeypatch.chdir(tmp_path)

    def make(kind: str, run: str = "run", **changes: Any) -> Config:
        if not (tmp_path / run).exists():
            shutil.copytree(prepared / "run", tmp_path / run)
        config = tiny_config(prepared, kind, **changes)
        return config.model_copy(update={"run": str(tmp_path / run)})

    return make


@pytest.fixture(autouse=True)
def threads_are_as_before() -> Iterator[None]:
    """A command may set the number of threads for the whole process: sums have other bits then."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
