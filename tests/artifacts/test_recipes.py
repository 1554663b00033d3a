"""What is made is known by the settings that differ from their defaults, and by no others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mtkit
from mtkit.config.base import Settings
from mtkit.config.model import Seq2SeqSettings, TransformerSettings
from mtkit.config.schedules import Cosine, InverseSqrt
from mtkit.config.settings import Adam, Config, Learning
from mtkit.config.yaml import dump_config
from mtkit.pipeline import run

CLASS = re.compile(r"\nclass (\w+)\(Settings\):\n")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TransformerSettings(), Seq2SeqSettings()),
        (InverseSqrt(peak=0.1), Cosine(peak=0.1)),
        (Adam(), Adam(kind="adamw")),
        (Learning(schedule=InverseSqrt(peak=0.1)), Learning(schedule=Cosine(peak=0.1))),
    ],
    ids=str,
)
def test_without_their_defaults_kinds_still_differ(one: Settings, other: Settings) -> None:
    assert one.without_defaults() != other.without_defaults()


def test_settings_are_read_back_from_what_is_left_without_defaults(
    fresh: Callable[..., Config],
) -> None:
    config = fresh("seq2seq", training={"optimizer": {"kind": "muon"}, "subword_sampling": {}})
    left = config.without_defaults()
    assert Config.model_validate(left) == config
    assert left["model"] == {"kind": "seq2seq", "layers": 1, "d_model": 32, "attention": "dot"}
    assert left["training"]["optimizer"] == {"kind": "muon"}
    assert left["training"]["subword_sampling"] == {}
    assert "seed" not in left


@pytest.mark.slow
def test_a_setting_that_is_added_with_a_default_refuses_nothing(
    fresh: Callable[..., Config], tmp_path: Path
) -> None:
    """A later mtkit, with one more setting in every section, goes on with what this one made."""
    finished = fresh("transformer", training={"steps": 2})
    run(finished)
    manifests = sorted(Path(finished.run).glob("*/manifest.json"))
    before = [json.loads(path.read_text("utf-8"))["identity"] for path in manifests]
    later = tmp_path / "later"
    shutil.copytree(
        Path(mtkit.__file__).parent, later / "mtkit", ignore=shutil.ignore_patterns("demo")
    )
    for path in (later / "mtkit" / "config").glob("*.py"):
        text = path.read_text("utf-8")
        path.write_text(CLASS.sub(r"\g<0>    added_to_\1: int = 7\n", text), "utf-8")
    (tmp_path / "config.yaml").write_text(dump_config(finished), "utf-8")

    def stages(*arguments: str) -> str:
        command = [sys.executable, "-m", "mtkit", "run", "-c", str(tmp_path / "config.yaml")]
        environment = {**os.environ, "PYTHONPATH": str(later)}
        done = subprocess.run(
            [*command, *arguments], cwd=later, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert stages().count("up to date") == len(before) == 4
    assert [json.loads(path.read_text("utf-8"))["identity"] for path in manifests] == before
    further = stages("--set", "training.steps=3")
    assert further.count("up to date") == 2
    assert "resuming after step 2" in further
    assert "added_to_Learning: 7" in (Path(finished.run) / "config.yaml").read_text("utf-8")
