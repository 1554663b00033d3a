"""`mtkit bench`: the sample data, and the laws of what is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch

from architectures import transformer
from commands import call
from estimators import LINES
from folders import as_if_trained, write_model
from folders import train as tokenizer
from mtkit.batching.plan import padding, plan_epoch
from mtkit.config.yaml import dump_config
from mtkit.decoding.api import load
from mtkit.extras.study.bench import translation_speed
from mtkit.extras.study.bench.layer_speed import (
    LAYER_TYPES,
    SEQUENCE_LENGTHS,
    bench_layers,
    count_peak_bytes,
    fit_exponent,
)
from mtkit.extras.study.bench.sample import draw_batches, draw_lengths
from mtkit.extras.study.bench.translation_speed import measure_in_process
from mtkit.machine import peak_bytes
from mtkit.symbols import EOS
from mtkit.training.timing import TimedWork, Work, time_work, window_rates
from tasks import Capture, tiny_config

SMALL = ["batching.max_tokens=512", "model.layers=1", "model.d_model=16", "training.device=cpu"]
SMALL += ["model.ffn=16", "model.heads=2"]
SQUARE = 100 * 100 * 4
"""Bytes of a float32 matrix of 100 by 100."""
SCALARS = 100
"""Bytes of single numbers, at most."""
CPU = torch.device("cpu")


# Sample data


def test_drawn_sentences_are_as_long_as_those_of_multi30k() -> None:
    lengths = draw_lengths(29_000, np.random.default_rng(1))
    assert lengths.mean(axis=0) == pytest.approx([14.3, 14.85], abs=0.1)
    assert lengths.std(axis=0) == pytest.approx([4.8, 5.6], abs=0.2)
    assert np.percentile(lengths, [1, 99], axis=0) == pytest.approx(
        np.array([[7, 6], [29, 33]]), abs=1
    )
    plan = plan_epoch(lengths, max_tokens=4096, seed=1, epoch=0)
    assert len(plan) == pytest.approx(113, abs=3)
    assert padding(lengths, plan) < 0.04


def test_drawn_tokens_are_ordinary_subwords_in_a_zipf_distribution(tmp_path: Path) -> None:
    store = draw_batches(tmp_path, vocab=50, seed=1, pairs=2000).train
    assert len(store) == 2000
    counts = np.bincount(store.tokens, minlength=50)
    assert not counts[: EOS + 1].any()
    assert (counts[EOS + 1 :] > 0).all()
    assert counts[EOS + 1] > 5 * counts[EOS + 11]  # the tenth is a tenth as frequent
    again = draw_batches(tmp_path / "again", vocab=50, seed=1, pairs=2000).train
    assert (store.tokens == again.tokens).all()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured") / "model"
    return Path(write_model(folder, tokenizer(), transformer(), as_if_trained))


# Counts


@pytest.mark.slow
def test_peak_memory_is_the_memory_that_lives_at_once() -> None:
    x = torch.randn(100, 100)

    def keep_and_drop() -> torch.Tensor:
        kept = x + 1
        dropped = x + 2
        del dropped
        return kept + 3

    assert SQUARE <= count_peak_bytes(lambda: x + 1, CPU) < SQUARE + SCALARS
    assert count_peak_bytes(lambda: x.t().view(-1, 100)[:50], CPU) == 0
    assert 2 * SQUARE <= count_peak_bytes(keep_and_drop, CPU) < 2 * SQUARE + SCALARS
    assert count_peak_bytes(lambda: x.add_(1), CPU) < SCALARS


# Layers


@given(st.floats(1e-6, 1e6), st.floats(0, 3))
def test_the_fitted_exponent_of_a_power_is_that_power(scale: float, power: float) -> None:
    costs = [scale * length**power for length in SEQUENCE_LENGTHS]
    assert fit_exponent(SEQUENCE_LENGTHS, costs) == pytest.approx(power, abs=1e-4)


@pytest.mark.slow
def test_layers_are_reported_as_table_and_json(capsys: Capture) -> None:
    briefly = partial(bench_layers, "cpu", lengths=(32, 64, 128, 256), seconds_each=1e-4)
    briefly(as_json=True)
    record = json.loads(capsys.readouterr().out)
    assert [costs["layer"] for costs in record["layers"]] == [kind.name for kind in LAYER_TYPES]
    whole, restricted, *_ = record["layers"]
    assert whole["exponents"]["bytes"] > 1.4 > restricted["exponents"]["bytes"]
    for costs in record["layers"]:
        assert min(costs["seconds"]) > 0
        assert costs["bytes"] == sorted(costs["bytes"])
    briefly(as_json=False)
    text = capsys.readouterr().out
    for kind in LAYER_TYPES:
        assert all(f"O({cost})" in text for cost in kind.theory.values())
    assert max(map(len, text.splitlines())) <= 80


# The runner


def test_work_ends_when_the_seconds_that_count_are_over_and_warm_up_is_not_measured() -> None:
    made: list[int] = []

    def work(pieces: int) -> Generator[Work]:
        for number in range(pieces):
            made.append(number)
            yield Work(tokens=number)

    def measure(pieces: int, seconds: float, at_least: int) -> list[int]:
        measured = time_work(
            work(pieces),
            seconds,
            warm_up=2,
            at_least=at_least,
            agree_on_seconds=lambda taken: 1.0,
        )
        return [piece.tokens for piece in measured]

    assert measure(pieces=100, seconds=3.0, at_least=1) == [2, 3, 4]
    assert made == [0, 1, 2, 3, 4]
    assert measure(pieces=100, seconds=0.0, at_least=1) == [2]
    assert measure(pieces=100, seconds=3.0, at_least=5) == [2, 3, 4, 5, 6]
    assert measure(pieces=4, seconds=3.0, at_least=1) == [2, 3]


def test_windows_are_whole_steps_and_about_equal_spans() -> None:
    even = [TimedWork(tokens=7, seconds=0.125, waiting_seconds=0.0)] * 40
    assert window_rates(even) == [56] * 10
    assert window_rates(even[:3]) == [56] * 3
    uneven = [*even, TimedWork(tokens=7, seconds=5.0, waiting_seconds=0.0)]
    assert len(window_rates(uneven)) == 6


# Training


@pytest.mark.slow
def test_training_reports_speed_and_memory(capfd: Capture) -> None:
    options = [word for override in SMALL for word in ("--set", override)]
    options += ["--set", "training.precision=float32", "--seconds", "0.2", "--quiet"]
    assert call("bench", "train", *options, "--json") == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    record = json.loads(captured.out)
    rates = record["tokens_per_second"]
    assert 0 < rates["min"] <= rates["median"] <= rates["max"]
    for share in ("padding", "waiting_for_data"):
        assert 0 <= record[share] < 1
    assert (record["precision"], record["max_tokens"]) == ("float32", 512)
    assert record["tokens_per_step"] <= 512
    assert record["peak_mib"]["resident"] > 50


@pytest.mark.slow
def test_training_is_measured_on_the_batches_of_a_run(
    prepared: Path, tmp_path: Path, monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tiny_config(prepared, "seq2seq")
    Path("mtkit.yaml").write_text(dump_config(config), encoding="utf-8")
    assert call("bench", "train", "-c", "mtkit.yaml", "--seconds", "0.2") == 0
    assert capsys.readouterr().out.startswith(f"{config.run}: seq2seq, ")
    assert not (Path(config.run) / "checkpoints").exists()


# Translation


@pytest.mark.slow
def test_translation_is_reported_for_a_beam_and_greedily(
    model: Path, tmp_path: Path, capsys: Capture, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(translation_speed, "measure_in_process", translation_speed._measure)
    lines = [*LINES, ""]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    options = ["-m", str(model), "--input", str(tmp_path / "text"), "--device", "cpu", "--quiet"]
    options += ["--engine", "torch", "--beam", "2", "--seconds", "0.1", "--json"]
    assert call("bench", "translate", *options) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["sentences"] == len(lines)
    engines = [(row["engine"], row["beam"]) for row in record["engines"]]
    assert engines == [(f"torch {t}", k) for t in ("float32", "bfloat16") for k in (2, 1)]
    translations = load(model, "cpu", engine="torch", beam=2).results(lines)
    subwords = sum(len(translation.tokens) for translation in translations)
    beam_search = record["engines"][0]
    ratio = beam_search["tokens_per_second"] / beam_search["sentences_per_second"]
    assert ratio == pytest.approx(subwords / len(lines), rel=0.05)
    for row in record["engines"]:
        assert row["latency_ms"]["p50"] <= row["latency_ms"]["p95"] <= row["latency_ms"]["p99"]
        assert row["peak_mib"] > 50


@pytest.mark.slow
def test_the_memory_of_an_engine_is_that_of_a_new_process(model: Path) -> None:
    engine = partial(load, model, "cpu", engine="ctranslate2", compute_type="float32")
    assert measure_in_process(engine, LINES, seconds=0.1)["peak_mib"] < peak_bytes() >> 20


# What cannot be measured


@pytest.mark.parametrize("content", [None, b"", b" \n"])
def test_a_missing_or_blank_text_is_named(
    content: bytes | None, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    text = tmp_path / "text"
    if content is not None:
        text.write_bytes(content)
    assert call("bench", "translate", "-m", str(model), "--input", str(text)) == 2
    assert capsys.readouterr().err.startswith(f"{text}")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ("train -c nowhere.yaml", "nowhere.yaml"),
        ("train --set model.haeds=3", "model.haeds"),
        ("train -c no.yaml --size tiny", "--size"),
        ("translate -m nowhere", "nowhere"),
    ],
)
def test_what_cannot_be_measured_is_one_line_and_exit_code_2(
    arguments: str, key: str, capsys: Capture, monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("bench", *arguments.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert key in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.slow
def test_an_engine_without_torch_is_measured_without_torch() -> None:
    code = "import sys, mtkit.extras.study.bench.translation_speed; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "mtkit.decoding.api" in loaded.stdout.split()
    assert "torch" not in loaded.stdout.split()
