"""`gpu.sh` measures whatever device there is: here tiny models, for a moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("gpu.sh")
TRAININGS = ("tiny", "hf-tiny", "recipe")


@pytest.mark.slow
def test_the_gpu_script_measures_and_compares_its_rows(tmp_path: Path) -> None:
    for side, words in (("en", "a dog sees one cat"), ("de", "ein Hund sieht eine Katze")):
        for name in ("train", "val", "test2016"):
            (tmp_path / f"{name}.{side}").write_text(f"{words}\n" * 40, encoding="utf-8")
    rows = [*TRAININGS, "search", "resume"]
    command = [str(SCRIPT), "--small", "--seconds", "1", "--corpus", str(tmp_path), *rows]
    environment = os.environ | {"PYTHON": sys.executable}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    *_, report = ended.stdout.split("\n\n")
    titles, *lines = report.splitlines()
    assert titles.split()[-1] == "remark"
    cells = {line.split()[0]: line.split()[1:] for line in lines[: len(rows)]}
    assert list(cells) == rows
    for name in TRAININGS:
        assert all(float(cell.replace(",", "")) > 0 for cell in cells[name][:4])
    assert cells["search"][-1] == "sentences/s"
    assert "BLEU" in cells["recipe"]
    assert cells["resume"].count("bitwise") == 2
    assert lines[len(rows) :] == [lines[-1]] and lines[-1].startswith("tiny: ")
