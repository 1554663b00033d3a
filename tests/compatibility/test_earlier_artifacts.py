"""Artifacts that earlier code wrote are read as they were then.

`c514bd3/` holds, as the code of that commit wrote them: the tokenizer and the batches that all its
runs share, a finished run of each architecture with its translations of `source.txt` (PyTorch,
float32, beam 3), and the checkpoint of a run that was interrupted.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from commands import call

EARLIER = Path(__file__).with_name("c514bd3")
FINISHED = ("transformer", "seq2seq")


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the caller's own with the corpus, the configs and the runs; one stands in it."""
    folder = tmp_path / "earlier"
    shutil.copytree(EARLIER, folder)
    for run in (*FINISHED, "unfinished"):
        for artifact in ("tokenizer", "batches"):
            shutil.copytree(folder / artifact, folder / run / artifact)
    monkeypatch.chdir(folder)
    return folder


def written(run: Path) -> dict[Path, int]:
    """When each file of the run's artifacts was written, in nanoseconds."""
    folders = (run / "tokenizer", run / "batches", run / "model")
    return {file: file.stat().st_mtime_ns for folder in folders for file in folder.iterdir()}


@pytest.mark.parametrize("run", FINISHED)
def test_an_earlier_model_translates_as_it_did(earlier: Path, run: str) -> None:
    options = ("--engine", "torch", "--device", "cpu", "--jsonl", "-q", "-o", "now.jsonl")
    assert call("translate", "source.txt", "-m", run, *options) == 0
    now, then = (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for path in (earlier / "now.jsonl", earlier / run / "translations.jsonl")
    )
    # But for half characters, in place of which stands the next hypothesis without any.
    whole = [(a, b) for a, b in zip(now, then, strict=True) if "\ufffd" not in b["text"]]
    assert len(whole) > len(then) / 2
    for name in ("tokens", "text"):
        assert [line[name] for line, _ in whole] == [line[name] for _, line in whole]
    scores = [line["score"] for _, line in whole]
    assert [line["score"] for line, _ in whole] == pytest.approx(scores, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("run", FINISHED)
def test_nothing_of_an_earlier_run_is_made_anew(earlier: Path, run: str) -> None:
    before = written(earlier / run)
    assert call("run", "-c", f"{run}.yaml", "-q") == 0
    assert written(earlier / run) == before


def test_an_earlier_run_that_is_unfinished_is_refused_with_what_to_do(
    earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("train", "-c", "unfinished.yaml") == 2
    refusal = capsys.readouterr().err.splitlines()[-1]
    assert "a checkpoint of another version of mtkit" in refusal
    assert f"delete {Path('unfinished', 'checkpoints')} to train anew" in refusal
    shutil.rmtree(earlier / "unfinished" / "checkpoints")
    assert call("train", "-c", "unfinished.yaml", "--set", "training.steps=2") == 0
