"""The examples of the guide to Python run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mtkit
from architectures import transformer
from folders import train, write_model

PAGE = Path(mtkit.__file__).parent / "guide/python.md"


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(Path("runs/en-de/model"), train(), transformer())
    Path("train.en").write_text("A dog runs.\nA <b>cat</b> sleeps.\n" * 50)
    Path("terms.tsv").write_text("dog\tHund\n")
    Path("train.de").write_text("Ein Hund läuft.\nEine Katze schläft.\n" * 50)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec("\n".join(examples), names)
    assert len(examples) == 7
    assert len(names["texts"]) == 2
    assert names["report"].failed
    assert capsys.readouterr().out.count("\n") >= 100
