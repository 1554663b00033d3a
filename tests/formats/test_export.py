"""Laws of `export --to ctranslate2`: what is measured, recorded, compared and refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import ctranslate2
import pytest
from sentencepiece import SentencePieceProcessor

from architectures import seq2seq, transformer
from folders import SENTENCES, as_if_trained, train, write_model
from mtkit.artifacts.manifest import open_artifact
from mtkit.decoding.api import Translator
from mtkit.errors import MtkitError, UserError
from mtkit.formats.ctranslate2 import Text, compare, text_of_test, text_of_validation
from mtkit.formats.export import export_model
from mtkit.formats.huggingface import from_huggingface
from mtkit.models.folder import open_model
from mtkit.pipeline import run
from tasks import tiny_config

SETTINGS = {"training": {"steps": 2, "validate_every": 2, "average": 1, "save_every": 2}}


@pytest.fixture(scope="module")
def trained(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything, its test set translated."""
    folder = tmp_path_factory.mktemp("run") / "run"
    shutil.copytree(prepared / "run", folder)
    run(tiny_config(prepared, "transformer", **SETTINGS).model_copy(update={"run": str(folder)}))
    return folder


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A model whose run is not there."""
    return write_model(tmp_path / "alone", train(), transformer(), as_if_trained, max_length=40)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


Capture = pytest.CaptureFixture[str]


def test_both_types_are_measured_once_and_translate_goes_by_its_command_alone(
    trained: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Translator.load(trained, "cpu").engine.name == "ctranslate2 float32"
    export_model(str(trained), to="ctranslate2")
    said = capsys.readouterr().err
    assert "BLEU on 20 lines of validation text is" in said
    assert ("int8: BLEU" in said) == ("mtkit translate --compute-type int8" in said)
    assert Translator.load(trained, "cpu").engine.name == "ctranslate2 float32"
    monkeypatch.setattr("mtkit.decoding.conversion.convert", None)
    export_model(str(trained), to="ctranslate2")
    assert "validation text" in capsys.readouterr().err


def test_a_loss_of_bleu_keeps_float32(
    trained: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([20.0, 20.31])
    monkeypatch.setattr("mtkit.formats.ctranslate2.corpus_bleu", lambda *lines: next(scores))
    export_model(str(trained), to="ctranslate2")
    assert "float32: BLEU on 20 lines" in capsys.readouterr().err
    assert Translator.load(trained, "cpu").engine.name == "ctranslate2 float32"


def test_without_a_run_there_is_nothing_to_measure_on(alone: Path, capsys: Capture) -> None:
    export_model(str(alone), to="ctranslate2")
    assert "float32: no validation text" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"--check: no test or validation text.*--text"):
        export_model(str(alone), to="ctranslate2", check=True)


def test_text_of_another_run_is_not_that_of_the_model(trained: Path, alone: Path) -> None:
    own = open_model(trained)
    validation, test = text_of_validation(own), text_of_test(own)
    assert validation and test and validation.reference and test.reference
    assert (len(validation.source), len(test.source)) == (20, 20)
    for part in ("batches", "test"):
        shutil.copytree(trained / part, alone.parent / part)
    shutil.copy(trained / "config.yaml", alone.parent)
    assert text_of_validation(open_model(alone)) is None
    assert text_of_test(open_model(alone)) is None


def test_a_folder_serves_a_program_that_knows_nothing_of_mtkit(alone: Path, tmp_path: Path) -> None:
    export_model(str(alone), tmp_path / "out", to="ctranslate2", quantization="float32")
    translator = ctranslate2.Translator(str(tmp_path / "out"))
    processor = SentencePieceProcessor(model_file=str(tmp_path / "out" / "spm.model"))
    pieces = processor.encode(SENTENCES, out_type=str)
    found = translator.translate_batch(
        pieces, beam_size=1, min_decoding_length=0, max_decoding_length=40
    )
    (wanted,) = Translator.load(alone, "cpu", engine="torch", beam=1).stream([SENTENCES])
    assert [result.hypotheses[0] for result in found] == [line.tokens for line in wanted]
    manifest = open_artifact(tmp_path / "out", "export", verify=True).manifest
    assert manifest["inputs"] == {"model": open_model(alone).artifact.identity}


def test_a_check_tells_how_far_both_agree(trained: Path, capsys: Capture, tmp_path: Path) -> None:
    export_model(str(trained), to="ctranslate2", quantization="float32", check=True)
    out = capsys.readouterr().out
    assert "identical" in out and "20 (100.00 %)" in out and "BLEU, torch float32" in out
    (tmp_path / "text").write_text("ant bee\n\ncat")
    export_model(
        str(trained), to="ctranslate2", quantization="int8", check=True, text=tmp_path / "text"
    )
    out = capsys.readouterr().out
    assert str(tmp_path / "text") in out and "BLEU" not in out


def test_a_check_without_text_writes_nothing(alone: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    for text, said in ((None, "no test or validation text"), (tmp_path / "empty", "no lines")):
        with pytest.raises(UserError, match=said):
            export_model(str(alone), tmp_path / "out", to="ctranslate2", check=True, text=text)
    assert not (tmp_path / "out").exists()


def test_a_check_that_cannot_be_made_on_this_processor_writes_nothing(
    alone: Path, tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("ant bee")
    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", lambda device: {"float32"})
    for output in (tmp_path / "out", None):
        with pytest.raises(UserError, match="--check: compute type: int8: CTranslate2 has float32"):
            export_model(
                *(str(alone), output),
                to="ctranslate2",
                quantization="int8",
                check=True,
                text=tmp_path / "text",
            )
    assert not (tmp_path / "out").exists() and not empty_cache.exists()


def test_a_check_that_fails_names_the_lines_and_ends_so(
    alone: Path, trained: Path, capsys: Capture
) -> None:
    text = Text("sentences", SENTENCES, SENTENCES)
    ours, other = (Translator.load(path, "cpu", engine="torch") for path in (alone, trained))
    with pytest.raises(MtkitError, match=r"only \d+\.\d\d % of the lines are identical"):
        compare(text, ours, other)
    assert "line 1: " in capsys.readouterr().out
    with pytest.raises(MtkitError, match=r"torch int8 loses \d+\.\d\d BLEU"):
        other.engine.name = "torch int8"
        compare(Text("own", SENTENCES, ours.translate(SENTENCES)), ours, other)


def test_what_cannot_be_is_refused_by_name(alone: Path, tmp_path: Path) -> None:
    lstm = write_model(tmp_path / "lstm", train(), seq2seq())
    with pytest.raises(UserError, match=r"model\.kind: seq2seq: CTranslate2 runs Transformers"):
        export_model(str(lstm), to="ctranslate2")
    with pytest.raises(UserError, match="alone: already exists"):
        export_model(str(alone), alone, to="ctranslate2")
    with pytest.raises(UserError, match="--to ctranslate2 or --to huggingface"):
        export_model(str(alone))
    with pytest.raises(UserError, match="--text: only with --check"):
        export_model(str(alone), to="ctranslate2", text=tmp_path)
    with pytest.raises(UserError, match="only --to ctranslate2"):
        export_model(str(alone), tmp_path / "out", to="huggingface", check=True)
    for folder, output in ((None, tmp_path / "out"), (tmp_path, None)):
        with pytest.raises(UserError, match="--from huggingface: name its folder"):
            from_huggingface(folder, output)
