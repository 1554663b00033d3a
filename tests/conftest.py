"""What all tests share: checked signatures, no home directory, runs that are ready to train."""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import hypothesis
import pytest

import signatures

if not Path("/dev/nvidiactl").exists():  # on a machine without a GPU, Triton interprets the kernels
    os.environ.setdefault("TRITON_INTERPRET", "1")
with suppress(ImportError):  # Triton compiles its functions, which no check can wrap
    import mtkit.extras.gpu.triton_kernels  # noqa: F401
signatures.install_checks()

# A process started with & ignores Ctrl-C, one started by nohup ignores SIGHUP, and child processes
# inherit this: the tests interrupt theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The same examples in every run, and no result that depends on the speed of the machine.
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
    """Reset random numbers, checks and verbosity, so that tests do not depend on their order."""
    from mtkit.report import set_quiet

    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    signatures.restart_checks()
    set_quiet(False)
    if files := sys.modules.get("mtkit.corpus.files"):
        files.tell_once.cache_clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort files with the most slow tests first, so that no worker ends long after the others."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@pytest.fixture(scope="session", autouse=True)
def _away_from_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide files, variables and other processes of the user, and do not wait for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
        patch.setattr(os, "fsync", lambda descriptor: None)  # no power failure is tested
        for variable in ("MTKIT_MODEL", "RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_NTASKS"):
            patch.delenv(variable, raising=False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        patch.setenv("HF_HOME", str(tmp_path_factory.getbasetemp() / "huggingface"))
        patch.chdir(tmp_path_factory.mktemp("here"))  # training links runs/latest
        yield


if TYPE_CHECKING:
    from commands import Stdin
    from mtkit.config.settings import Config


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Stdin:
    """Return a function that sets the standard input of commands called in this process."""

    def give(content: BinaryIO | str | None) -> None:
        stream = io.BytesIO(content.encode()) if isinstance(content, str) else content
        buffered: Any = stream and io.BufferedReader(cast(Any, stream))  # as Python opens stdin
        monkeypatch.setattr(sys, "stdin", buffered and io.TextIOWrapper(buffered))

    return give


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, and a run with its tokenizer and batches."""
    from mtkit.batching.build import build_batches
    from mtkit.tokenizer.train_spm import train_tokenizer
    from tasks import tiny_config, write_reversal_task

    folder = tmp_path_factory.mktemp("task")
    write_reversal_task(folder)
    config = tiny_config(folder, "transformer")
    train_tokenizer(config)
    build_batches(config)
    return folder


@pytest.fixture
def fresh(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Config]:
    """Return a function that makes configs of runs that lack only the training."""
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
    """Reset the number of threads, which a command may set and on which the bits of sums depend."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
