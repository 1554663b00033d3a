"""`gpu.sh` measures whatever device there is: here tiny models, for a moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("gpu.sh")
ROWS = ["tiny", "search", "recipe"]


@pytest.mark.slow
def test_the_gpu_script_prints_its_rows_and_writes_a_file_for_each(tmp_path: Path) -> None:
    options = ["--small", "--seconds", "0.5", "--out", str(tmp_path)]
    environment = os.environ | {"PYTHON": sys.executable}
    ended = subprocess.run(
        [str(SCRIPT), *options, *ROWS], env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    _, table = ended.stdout.split("\n\n")
    assert [line.split()[0] for line in table.splitlines()[1:]] == ROWS
    records = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ROWS}
    assert all(records[name]["tokens_per_second"] > 0 for name in ("tiny", "search"))
    assert records["recipe"]["remark"] == "left out: needs --corpus"
