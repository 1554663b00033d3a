"""Model folders of earlier versions open and translate as they did.

`c514bd3/` holds a model of each architecture as that commit wrote it, with its translations of
`source.txt` (PyTorch, float32, beam 3).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import call
from mtkit.artifacts.manifest import open_artifact
from mtkit.decoding.estimation.flags import has_loop

EARLIER = Path(__file__).with_name("c514bd3")


@pytest.mark.parametrize("name", ["transformer", "seq2seq"])
def test_an_earlier_model_translates_as_it_did(name: str, tmp_path: Path) -> None:
    output = tmp_path / "now.jsonl"
    options = ("--engine", "torch", "--device", "cpu", "--jsonl", "-q", "-o", str(output))
    assert call("translate", str(EARLIER / "source.txt"), "-m", str(EARLIER / name), *options) == 0
    now, then = (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for path in (output, EARLIER / name / "translations.jsonl")
    )
    # A translation with half a character gives way to the best hypothesis without any, and one with
    # a loop to that of a second search.
    sources = (EARLIER / "source.txt").read_text("utf-8").splitlines()
    pairs = [
        (a, b)
        for a, b, source in zip(now, then, sources, strict=True)
        if "\ufffd" not in b["text"] and not has_loop(b["text"], source)
    ]
    assert len(pairs) > len(then) / 2
    now, then = [a for a, _ in pairs], [b for _, b in pairs]
    for key in ("tokens", "text"):
        assert [line[key] for line in now] == [line[key] for line in then]
    scores = [line["score"] for line in then]
    assert [line["score"] for line in now] == pytest.approx(scores, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", ["transformer", "seq2seq"])
def test_an_earlier_model_is_verified(name: str) -> None:
    assert open_artifact(EARLIER / name / "model", "model", verify=True).identity
