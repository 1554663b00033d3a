"""Another package adds to mtkit by entry points, as mtkit's own extras do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from architectures import transformer
from folders import train, write_model
from mtkit import plugins
from mtkit.errors import UserError

MODULE = """
from mtkit.corpus.importers import Importer


class EqualSigns(Importer):
    def read(self, path, columns):
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            source, target = line.rstrip("\\n").split(" = ")
            yield path, number, source, target

    def choose_columns(self, path, columns, languages):
        return 0, 1

    check_translation = open_column = lambda *_: None


def shout(segment, context):
    return [segment.with_change(upper)]


def upper(translation):
    return translation.respell([*translation.string[:-1].upper(), translation.string[-1:] + "!"])
"""
ENTRY_POINTS = """
[mtkit.importers]
.pairs = my_package:EqualSigns
[mtkit.text_steps]
shout = my_package:shout
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with a package that adds an importer and a text step."""
    folder = tmp_path / "packages"
    metadata = folder / "my_package-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "my_package.py").write_text(MODULE, encoding="utf-8")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    return folder


def call_with(packages: Path, *arguments: str, stdin: str = "") -> str:
    """Run a command where the package is installed; return what it writes to stdout."""
    paths = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", "mtkit", *arguments],
        input=stdin,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.slow
def test_another_package_adds_a_format_of_corpora(packages: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.pairs"
    lines = [f"number {row} of the dogs = Nummer {row} der Hunde" for row in range(30)]
    corpus.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert "30 pairs" in call_with(packages, "check", str(corpus), "--languages", "en", "de")


@pytest.mark.slow
def test_another_package_adds_a_text_step(packages: Path, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", train(), transformer())
    arguments = ("translate", "-q", "-m", str(model))
    plain = call_with(tmp_path, *arguments, stdin="a dog runs\n")
    shouted = call_with(packages, *arguments, stdin="a dog runs\n")
    assert shouted == plain.rstrip("\n").upper() + "!\n"


def test_what_is_not_installed_is_named() -> None:
    with pytest.raises(UserError, match="'nothing' is not installed"):
        plugins.load_plugin("actions", "nothing")
