"""`mtkit bench`: what is drawn for it, and what it reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mtkit.study.bench.ceiling
from commands import call
from mtkit.batching.plan import padding, plan_epoch
from mtkit.config.yaml import dump_config
from mtkit.decoding.api import Translator
from mtkit.study.bench.train import window_rates
from mtkit.study.bench.translate import report_of, text_of
from mtkit.study.bench.translation_rate import Rate
from mtkit.study.bench.workload import (
    TRANSLATED_LENGTH,
    Timed,
    draw_batches,
    draw_lengths,
    draw_model,
    draw_sentences,
)
from mtkit.symbols import EOS
from tasks import tiny_config, write_reversal_task

Capture = pytest.CaptureFixture[str]
SMALL = ["batching.max_tokens=512", "model.layers=1", "model.d_model=16", "training.device=cpu"]
OF_A_TRANSFORMER = [*SMALL, "model.ffn=16", "model.heads=2"]
OF_A_SEQ2SEQ = ["model.kind=seq2seq", *SMALL, "model.input_feeding=false"]


def test_drawn_sentences_are_as_long_as_those_of_multi30k() -> None:
    lengths = draw_lengths(29_000, np.random.default_rng(1))
    assert lengths.mean(axis=0) == pytest.approx([14.3, 14.85], abs=0.1)
    assert lengths.std(axis=0) == pytest.approx([4.8, 5.6], abs=0.2)
    assert np.percentile(lengths, [1, 99], axis=0) == pytest.approx(
        np.array([[7, 6], [29, 33]]), abs=1
    )
    plan = plan_epoch(lengths, max_tokens=4096, seed=1, epoch=0)
    assert len(plan) == pytest.approx(120, abs=3)
    assert padding(lengths, plan) == pytest.approx(0.036, abs=0.008)


def test_drawn_sentences_are_ordinary_subwords_in_a_store(tmp_path: Path) -> None:
    store = draw_batches(tmp_path, vocab=50, seed=1, pairs=2000).train
    assert len(store) == 2000
    counts = np.bincount(store.tokens, minlength=50)
    assert not counts[: EOS + 1].any()
    assert (counts[EOS + 1 :] > 0).all()
    assert counts[EOS + 1] > 5 * counts[EOS + 11]  # Zipf: the tenth is a tenth as frequent
    again = draw_batches(tmp_path / "again", vocab=50, seed=1, pairs=2000).train
    assert (store.tokens == again.tokens).all()


def test_windows_are_whole_updates_and_about_equal_spans() -> None:
    even = [Timed(tokens=7, seconds=0.125, waited=0.0)] * 40
    assert list(window_rates(even)) == [56] * 10
    assert list(window_rates(even[:3])) == [56] * 3
    uneven = [*even, Timed(tokens=7, seconds=5.0, waited=0.0)]
    assert len(list(window_rates(uneven))) == 6


@pytest.fixture
def _briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mtkit.study.bench.ceiling, "SECONDS_EACH", 1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("_briefly")
def test_training_is_reported_as_json(capfd: pytest.CaptureFixture[str]) -> None:
    options = [word for override in OF_A_TRANSFORMER for word in ("--set", override)]
    options += ["--precision", "float32", "--seconds", "0.2"]
    assert call("bench", "train", *options, "--json", "--breakdown", "--quiet") == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    record = json.loads(captured.out)
    rates = record["tokens_per_second"]
    assert 0 < rates["min"] <= rates["median"] <= rates["max"]
    assert record["share_of_limit"] == pytest.approx(
        rates["median"] / record["limit_tokens_per_second"], abs=1e-3
    )
    for share in ("padding", "waiting_for_data"):
        assert 0 <= record[share] < 1
    assert record["precision"] == "float32"
    assert record["max_tokens"] == 512
    assert record["peak_mib"]["resident"] > 50
    assert record["update_ms"] > 0
    assert record["tokens_per_update"] <= 512
    assert sum(of["share"] for of in record["breakdown"].values()) == pytest.approx(1, abs=1e-2)
    assert record["breakdown"]["FeedForward"]["limit_ms"] > 0
    assert len(record["operators"]) == 10
    assert {"workload", "model", "parameters", "processor", "threads", "torch"} <= record.keys()


@pytest.mark.slow
@pytest.mark.usefixtures("_briefly")
def test_the_batches_of_a_run_are_measured_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    write_reversal_task(tmp_path)
    Path("mtkit.yaml").write_text(dump_config(tiny_config(tmp_path, "seq2seq")), encoding="utf-8")
    for stage in ("train-spm", "batch"):
        assert call(stage, "--quiet") == 0
    capsys.readouterr()
    assert call("bench", "train", "-c", "mtkit.yaml", "--seconds", "0.2", "--breakdown") == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{tmp_path / 'run'}: seq2seq, ")
    for row in (
        "target tokens/s",
        "of the limit",
        "peak memory",
        "LSTM",
        "Objective",
        "costliest operators",
    ):
        assert f"\n{row} " in text
    assert not (tmp_path / "run/checkpoints").exists()


@pytest.mark.usefixtures("_briefly")
def test_the_ceiling_is_a_table_or_json(capsys: Capture) -> None:
    options = [word for override in OF_A_SEQ2SEQ for word in ("--set", override)]
    options += ["--set", "training.precision=bfloat16", "--size", "base"]
    assert call("bench", "ceiling", *options) == 0
    assert "(in use)" in capsys.readouterr().out
    assert call("bench", "ceiling", *options, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["limit_tokens_per_second"].keys() == {"float32", "bfloat16", "mixed"}
    assert {of["part"] for of in record["products"]} == {
        "GeneralAttention",
        "LSTM",
        "Linear",
        "Objective",
    }
    assert sum(of["gflop"] for of in record["products"]) == pytest.approx(record["gflop"])


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn") / "model"
    draw_model(folder, "tiny")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_every_translation_by_a_drawn_model_has_the_same_length(drawn: Path, engine: str) -> None:
    translator = Translator.load(drawn, "cpu", engine=engine, compute_type="float32")
    lines = draw_sentences("tiny")[:12]
    assert {len(ids) for ids in translator.tokenizer.encode_source(lines)} == {
        len(line.split()) for line in lines
    }
    (translations,) = translator.stream([lines])
    assert {len(translation.tokens) for translation in translations} == {TRANSLATED_LENGTH}


@pytest.mark.slow
def test_translating_is_reported_for_a_beam_and_greedily(
    drawn: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "text").write_text("w9 w17\nw5\n\n", encoding="utf-8")
    options = ["-m", str(drawn), "--input", str(tmp_path / "text"), "--device", "cpu", "--quiet"]
    options += ["--engine", "torch", "--beam", "2", "--seconds", "0.1", "--json"]
    assert call("bench", "translate", *options) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["sentences"] == 3
    assert [(row["engine"], row["beam"]) for row in record["engines"]] == [
        ("torch float32", 2),
        ("torch float32", 1),
        ("torch bfloat16", 2),
        ("torch bfloat16", 1),
    ]
    for row in record["engines"]:
        tokens = 2 / 3 * TRANSLATED_LENGTH * row["sentences_per_second"]  # a blank line has none
        assert row["tokens_per_second"] == pytest.approx(tokens, rel=0.02)
        assert row["latency_ms"]["p50"] <= row["latency_ms"]["p95"] <= row["latency_ms"]["p99"]
        assert row["peak_mib"] > 50


@pytest.mark.slow
def test_an_ensemble_is_measured_with_the_engine_that_can(
    drawn: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "text").write_text("w9 w17\n", encoding="utf-8")
    options = ["-m", str(drawn), "-m", str(drawn), "--input", str(tmp_path / "text")]
    options += ["--device", "cpu", "--beam", "1", "--seconds", "0.1"]
    assert call("bench", "translate", *options) == 0
    captured = capsys.readouterr()
    assert f"{drawn} + {drawn}: 1 sentences" in captured.out
    assert [line.split()[0] for line in captured.out.splitlines()[-2:]] == ["torch", "torch"]
    assert (
        captured.err.count("left out: an ensemble of 2 models: CTranslate2 searches with one") == 2
    )


def test_the_report_on_translating_is_a_table() -> None:
    rate = Rate(100.0, 2500.0, 1, [0.5, 0.25, 0.125], 300)
    rows = [{"engine": "torch float32", "beam": 5} | report_of(rate)]
    record = {"task": "tiny", "sentences": 3, "processor": "any", "cores": 2, "engines": rows}
    lines = list(text_of(record))
    assert lines[0] == "tiny: 3 sentences"
    assert lines[-1].split()[2:] == ["5", "100.0", "2,500", "250.0", "475.0", "495.0", "300"]


@pytest.mark.parametrize(
    ("training", "complaint"),
    [("", ": training: missing"), ("training: 5\n", ":2: training: expected settings")],
)
def test_a_faulty_config_is_led_back_to_its_line(
    training: str, complaint: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "mtkit.yaml"
    corpus = "{source: a, target: b}"
    path.write_text(f"run: r\n{training}data: {{train: {corpus}, valid: {corpus}}}\n")
    assert call("bench", "ceiling", "-c", str(path)) == 2
    assert capsys.readouterr().err.startswith(f"{path}{complaint}")


def test_a_text_that_is_not_there_is_told_to_be_unreadable(
    drawn: Path, tmp_path: Path, capsys: Capture
) -> None:
    missing = str(tmp_path / "missing")
    assert call("bench", "translate", "-m", str(drawn), "--input", missing) == 2
    assert capsys.readouterr().err.startswith(f"{missing}: cannot be read (No such file")


@pytest.mark.parametrize("content", [b"", b" \n"])
def test_a_text_that_is_none_is_named(
    content: bytes, drawn: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "text").write_bytes(content)
    options = ["-m", str(drawn), "--input", str(tmp_path / "text")]
    assert call("bench", "translate", *options) == 2
    assert capsys.readouterr().err.startswith(f"{tmp_path / 'text'}: no text to translate")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("bench", "mtkit bench: Missing command. (see mtkit bench --help)"),
        ("bench train --size huge", "mtkit bench train: Invalid value for '--size': "),
        ("bench train --seconds 0", "mtkit bench train: Invalid value for '--seconds': "),
        ("bench ceiling -c nowhere.yaml", "nowhere.yaml: no such config file"),
        ("bench train --set model.haeds=3", "--set model.haeds=3: model.haeds: unknown setting;"),
        ("bench train -c no.yaml --size tiny", "--size tiny: no.yaml says what to measure"),
        ("bench train --set training.subword_sampling.alpha=0.1", "training.subword_sampling: "),
        ("bench translate -m nowhere", "nowhere: no model there: "),
        ("bench translate -m nowhere --size base", "--size base: nowhere says what to measure"),
        ("bench translate --input text", "--input text: drawn models know no text: "),
        ("bench translate --engine marian", "mtkit bench translate: Invalid value for '--engine'"),
        ("bench translate --beam 0", "mtkit bench translate: Invalid value for '--beam': "),
    ],
)
def test_what_cannot_be_measured_is_one_line_and_exit_code_2(
    arguments: str, line: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*arguments.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(line)
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "command", ["bench", "bench train", "bench ceiling", "bench translate", "bench layers"]
)
def test_help_does_not_wait_for_torch(command: str) -> None:
    code = (
        "import atexit, sys\n"
        "from mtkit.cli.main import main\n"
        "atexit.register(lambda: sys.stderr.write(' '.join(sys.modules)))\n"
        "main(sys.argv[1:])\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, *command.split(), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.startswith(f"Usage: mtkit {command} [OPTIONS]")
    assert not {"torch", "numpy"} & set(process.stderr.split())


def test_what_translates_without_torch_is_measured_without_it() -> None:
    code = "import sys, mtkit.study.bench.translation_rate; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "mtkit.decoding.api" in loaded.stdout.split()
    assert "torch" not in loaded.stdout.split()
