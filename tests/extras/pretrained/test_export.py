"""Laws of `export --to ctranslate2`: the choice of the compute type, and refusals."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
from sentencepiece import SentencePieceProcessor

from architectures import seq2seq, transformer
from folders import SENTENCES, as_if_trained, searching_once, train, write_model
from mtkit.artifacts.manifest import open_artifact
from mtkit.batching.build import Batches, find_batches
from mtkit.decoding.api import load
from mtkit.errors import UserError
from mtkit.extras.pretrained.ctranslate2_export import export_to_ctranslate2
from mtkit.extras.pretrained.huggingface import export_to_huggingface, from_huggingface
from mtkit.models.folder import open_model
from mtkit.pipeline import run
from mtkit.scoring.metrics import METRICS, Score
from tasks import tiny_config

SETTINGS = {"training": {"steps": 2, "validate_every": 2, "average": 1, "save_every": 2}}


@pytest.fixture(scope="module")
def trained(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run, with its test set translated."""
    folder = tmp_path_factory.mktemp("run") / "run"
    shutil.copytree(prepared / "run", folder)
    run(tiny_config(prepared, "transformer", **SETTINGS).model_copy(update={"run": str(folder)}))
    return folder


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A model without its run."""
    return write_model(tmp_path / "alone", train(), transformer(), as_if_trained, max_length=40)


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("min_long_lines", "metric"), [(0.0, "BLEU"), (1.0, "chrF2")])
def test_int8_is_chosen_if_the_validation_score_hardly_drops(
    min_long_lines: float,
    metric: str,
    trained: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mtkit.scoring.writing.MIN_LONG_LINES", min_long_lines)
    for scores, chosen in (([20.0, 20.29], "int8"), ([20.0, 20.31], "float32")):
        values = iter(scores)

        def scored(*_: Any, keys: list[str], values: Iterator[float] = values, **__: Any) -> Any:
            return {keys[0]: Score(METRICS[keys[0]].name, next(values), "")}

        monkeypatch.setattr("mtkit.extras.pretrained.ctranslate2_export.score", scored)
        export_to_ctranslate2(str(trained))
        err = capsys.readouterr().err
        assert f"{chosen}: {metric} on 20 lines" in err
        assert (chosen == "int8") == ("--compute-type int8" in err)
    assert load(trained, "cpu").engine.name == "ctranslate2 float32"


def test_without_its_run_a_model_is_exported_in_float32(alone: Path, capsys: Capture) -> None:
    export_to_ctranslate2(str(alone))
    assert "exporting float32" in capsys.readouterr().err


def batches_at(model: Path) -> Batches | None:
    opened = open_model(model)
    return find_batches(opened.artifact, opened.run)


def test_text_of_another_run_is_not_used(trained: Path, alone: Path) -> None:
    batches = batches_at(trained)
    assert batches and len(batches.valid_source) == len(batches.valid_target) == 20
    shutil.copytree(trained / "batches", alone.parent / "batches")
    shutil.copy(trained / "config.yaml", alone.parent)
    assert batches_at(alone) is None


def test_ctranslate2_alone_translates_the_same(alone: Path, tmp_path: Path) -> None:
    export_to_ctranslate2(str(alone), tmp_path / "out", quantization="float32")
    translator = ctranslate2.Translator(str(tmp_path / "out"))
    processor = SentencePieceProcessor(model_file=str(tmp_path / "out" / "spm.model"))
    pieces = processor.encode(SENTENCES, out_type=str)
    actual = translator.translate_batch(
        pieces, beam_size=1, min_decoding_length=0, max_decoding_length=40
    )
    expected = searching_once(load(alone, "cpu", engine="torch", beam=1)).results(SENTENCES)
    assert [result.hypotheses[0] for result in actual] == [line.tokens for line in expected]
    manifest = open_artifact(tmp_path / "out", "export", verify=True).manifest
    assert manifest["inputs"] == {"model": open_model(alone).artifact.identity}


def test_what_cannot_be_exported_is_refused(alone: Path, tmp_path: Path) -> None:
    lstm = write_model(tmp_path / "lstm", train(), seq2seq())
    with pytest.raises(UserError, match=r"model\.encoder\.kind is lstm"):
        export_to_ctranslate2(str(lstm))
    with pytest.raises(UserError, match="alone already exists"):
        export_to_ctranslate2(str(alone), alone)
    with pytest.raises(UserError, match="--to huggingface: choose a new folder"):
        export_to_huggingface(str(alone), None)
    for folder, output in ((None, tmp_path / "out"), (tmp_path, None)):
        with pytest.raises(UserError, match="--from huggingface: give the folder"):
            from_huggingface(folder, output)
