"""In tests signatures are checked at run time: jaxtyping binds shape letters, beartype looks."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import hypothesis
import pytest
from jaxtyping import install_import_hook

install_import_hook("mtkit", "beartype.beartype")

hypothesis.settings.register_profile("mtkit", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("mtkit")


@pytest.fixture(autouse=True)
def _away_from_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test sees the caches or the model of the person who runs it."""
    monkeypatch.delenv("MTKIT_MODEL", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path_factory.getbasetemp() / "huggingface"))
