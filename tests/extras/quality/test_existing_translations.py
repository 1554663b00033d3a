"""Existing translations are estimated as the search would have estimated them."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from architectures import transformer
from commands import call
from estimators import ESTIMATOR, LINES, write_model_with
from folders import Copier, as_if_trained, train, write_model
from mtkit.config.decoding import DecodingSettings
from mtkit.config.target_tags import piece_of_tag
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.reading import Reader
from mtkit.decoding.search.forced import log_probabilities
from mtkit.decoding.text.line import Line
from mtkit.decoding.text.pipeline import open_window
from mtkit.errors import UserError
from mtkit.extras.quality import files as files_module
from mtkit.extras.quality.files import estimate_files, estimate_lines
from mtkit.symbols import EOS, PAD


def test_forced_decoding_gives_the_log_probability_of_the_search(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", train(), transformer(), as_if_trained, beam=3)
    reader = Reader.load(model, "cpu")
    request = Request(reader.settings, n_best=3)
    sentences = open_window([Line(line) for line in LINES], reader.tokenizer, request).sentences
    with closing(PyTorchEngine(reader.model)) as engine:
        found = engine.search(sentences, request).result()
    compared = 0
    for sentence, hypotheses in zip(sentences, found, strict=True):
        finished = [hypothesis for hypothesis in hypotheses if hypothesis.finished]
        compared += len(finished)
        for hypothesis in finished:
            source = torch.tensor([[*sentence.source, PAD]])
            target = torch.tensor([[*hypothesis.tokens, EOS, PAD, PAD]])
            (score,) = log_probabilities(reader.model, source, target).tolist()
            assert hypothesis.score is not None
            assert score == pytest.approx(
                hypothesis.score * max(1, len(hypothesis.tokens)), abs=1e-3
            )


def test_an_existing_translation_gets_what_the_search_gave() -> None:
    model = Copier(train().source_vocab).eval()
    settings = DecodingSettings(beam=2, max_length=60, sentences="en")
    translator = Translator(PyTorchEngine(model), train(), Request(settings), estimator=ESTIMATOR)
    lines = [*LINES, "", "12", " ".join(LINES), "- A dog runs."]
    translations = list(translator.results(lines))
    texts = [translation.text for translation in translations]
    again = estimate_lines(Reader(model, train(), settings), translator, lines, texts)
    for translation, estimate in zip(translations, again, strict=True):
        assert estimate.confidence == pytest.approx(translation.confidence, abs=1e-3)
        assert estimate.flags == translation.flags


def test_an_existing_translation_is_scored_with_the_target_tag_before_its_source(
    tmp_path: Path,
) -> None:
    tags = ["hau", "yor"]
    tokenizer = train(vocab_size=302, control_symbols=[piece_of_tag(tag) for tag in tags])
    model = write_model(tmp_path / "model", tokenizer, transformer(), as_if_trained)
    pairs = [(ids, ids[::-1]) for ids in tokenizer.encode_source(LINES)]
    untagged = replace(Reader.load(model, "cpu", "hau"), settings=DecodingSettings())
    scores: dict[str, list[float]] = {}
    for tag in tags:
        scores[tag] = files_module._score(Reader.load(model, "cpu", tag), pairs)
        spelled_out = [([tokenizer.tags[tag], *source], target) for source, target in pairs]
        assert scores[tag] == pytest.approx(files_module._score(untagged, spelled_out), abs=1e-3)
    assert scores["hau"] != pytest.approx(scores["yor"], abs=1e-3)


def test_a_model_of_several_languages_scores_with_the_tag_that_is_named(
    tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, hypothesis = files
    tokenizer = train(vocab_size=301, control_symbols=[piece_of_tag("yor")])
    model = write_model_with(tmp_path / "model", ESTIMATOR, tokenizer)
    arguments = ["score", str(hypothesis), "--source", str(source), "-m", str(model)]
    assert call(*arguments) == 2
    assert "--tag yor" in capsys.readouterr().err
    assert call(*arguments, "--tag", "yor") == 0
    assert "predicted chrF2" in capsys.readouterr().out
    assert call("score", str(hypothesis), "-r", str(source), "--tag", "yor") == 2


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "src").write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "hyp").write_text("A dog runs.\nTwo Two Two Two men.\n\nWhy is it so?\n")
    return tmp_path / "src", tmp_path / "hyp"


def test_a_file_of_translations_gets_a_verdict(
    tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, hypothesis = files
    model = write_model_with(tmp_path / "model", ESTIMATOR)
    options = ["--source", str(source), "-m", str(model), "--worst", "2"]
    assert call("score", str(hypothesis), *options, "--json") == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["lines"] == 4
    assert record["flags"]["loop"] == 1 and record["flags"]["empty"] == 1
    low, high = record["interval"]
    assert low <= record["predicted_chrf"] <= high
    first, second = record["worst"]
    assert first["confidence"] <= second["confidence"]
    assert call("score", str(hypothesis), *options) == 0
    assert "predicted chrF2" in capsys.readouterr().out


def test_the_prediction_for_a_file_is_that_of_the_command_that_wrote_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Although the search may spell a text with other subwords than the tokenizer."""
    model = str(write_model_with(tmp_path / "model", ESTIMATOR))
    source, output, flags = (tmp_path / name for name in ("src", "out", "flags.jsonl"))
    source.write_text("".join(f"{line}\n" for line in [*LINES, " ".join(LINES), "", "Zq: {x} é"]))
    outputs = ("-o", str(output), "--flags", str(flags))
    assert call("translate", str(source), "-m", model, *outputs) == 0
    said = capsys.readouterr().err
    written = [json.loads(line) for line in flags.read_text().splitlines()]
    again = tmp_path / "again.jsonl"
    options = ["--source", str(source), "-m", model, "--worst", "9", "--json"]
    assert call("score", str(output), *options, "--flags", str(again)) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert again.read_text() == flags.read_text()
    for line in record["worst"]:
        of_translate = written[line["line"] - 1]
        assert line["flags"] == of_translate["flags"]
        assert line["confidence"] == pytest.approx(of_translate["confidence"], abs=1e-4)
    assert len(record["worst"]) == sum(line["confidence"] is not None for line in written)
    if record["is_unlike"]:
        assert f"{record['unlike']} of {record['lines']} lines are unlike" in said
    else:
        assert f"predicted chrF {record['predicted_chrf']:.1f}" in said


def test_a_flag_fails_the_command_after_the_verdict_and_names_its_first_line(
    tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, hypothesis = files
    model = write_model_with(tmp_path / "model", ESTIMATOR)
    options = ["--source", str(source), "-m", str(model), "--fail-on"]
    assert call("score", str(hypothesis), *options, "placeholder, loop") == 1
    captured = capsys.readouterr()
    assert "predicted chrF2" in captured.out
    assert captured.err.splitlines()[-1].endswith(f"{hypothesis}:2: 1 line flagged loop")
    assert call("score", str(hypothesis), *options, "placeholder") == 0
    capsys.readouterr()
    for unknown in ("lop", "", "loop,"):
        assert call("score", str(hypothesis), *options, unknown) == 2
        assert "no flag" in capsys.readouterr().err


def test_a_file_unlike_the_training_text_has_no_predicted_chrf(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(write_model_with(tmp_path / "model", ESTIMATOR))
    source, output = tmp_path / "src", tmp_path / "out"
    source.write_text("Quantum chromodynamics: jvpq xzkw!\n" * 3 + "A dog runs.\n" * 7)
    assert call("translate", str(source), "-m", model, "-o", str(output)) == 0
    said = capsys.readouterr().err
    assert "3 of 10 lines are unlike the training text: expect less than chrF 60.0" in said
    assert "predicted" not in said
    assert call("score", str(output), "--source", str(source), "-m", model) == 0
    told = capsys.readouterr().out
    assert "unknown" in told
    assert "3 of 10 lines are unlike the training text" in " ".join(told.split())


def test_a_glossary_flags_the_translations_that_lack_its_terms(
    tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, hypothesis = files
    model = write_model_with(tmp_path / "model", ESTIMATOR)
    terms = tmp_path / "terms.tsv"
    terms.write_text("boat\tBoot\ndog\tdog\nwhy\tWieso\n")
    options = ["--source", str(source), "-m", str(model), "--glossary", str(terms), "--json"]
    assert call("score", str(hypothesis), *options) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["flags"]["term"] == 2  # boat and why, but not dog


def test_what_cannot_be_estimated_is_refused(tmp_path: Path, files: tuple[Path, Path]) -> None:
    source, hypothesis = files
    model = write_model_with(tmp_path / "model", ESTIMATOR)
    (tmp_path / "short").write_text("A dog.\n")
    with pytest.raises(UserError, match="1 line, but"):
        estimate_files(source, [tmp_path / "short"], model)
    few = write_model_with(tmp_path / "few", replace(ESTIMATOR, calibration=None))
    for uncalibrated in (tmp_path / "plain", few):
        with pytest.raises(UserError, match=r"no calibration; .* at least 100 validation lines"):
            estimate_files(source, [hypothesis], uncalibrated)
    given_source = ["--source", str(source)]
    for arguments in (
        [str(hypothesis)],
        given_source,
        [str(hypothesis), *given_source, "--paired"],
        [str(hypothesis), *given_source, "--language", "de"],
        [str(hypothesis), *given_source, "-r", str(source), "--worst", "1", "-m", str(model)],
        [str(hypothesis), "-r", str(source), "--flags", "flags.jsonl"],
        [str(hypothesis), str(source), *given_source, "--flags", str(tmp_path / "flags.jsonl")],
        [str(hypothesis), *given_source, "--flags", str(hypothesis)],
        [str(hypothesis), *given_source, "--flags", str(source)],
    ):
        assert call("score", *arguments) == 2
