"""The Python examples of the README run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mtkit
from architectures import transformer
from folders import train, write_model

README = Path(mtkit.__file__).parent / "decoding/README.md"


def test_the_examples_of_the_readme_run(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(Path("runs/demo/model"), train(), transformer())
    examples = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec("\n".join(examples), names)
    assert len(examples) == 4
    assert len(names["texts"]) == 2
    assert capsys.readouterr().out.count("\n") >= 2
