"""`mtkit bench layers`: exponents, arithmetic and memory are what they are said to be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import UserError
from mtkit.study.bench import layers
from mtkit.study.bench.layers import (
    LAYERS,
    LENGTHS,
    RADIUS,
    WIDTH,
    Layer,
    apply,
    bench_layers,
    count_operations,
    exponent,
)
from mtkit.study.bench.watching import claimed_bytes

SQUARE = 100 * 100 * 4
"""Bytes of a float32 matrix."""
SCALARS = 100
"""Bytes for single numbers, at most."""
CPU = torch.device("cpu")
Capture = pytest.CaptureFixture[str]


@given(st.floats(1e-6, 1e6), st.floats(0, 3))
def test_the_exponent_of_a_power_is_found(scale: float, power: float) -> None:
    costs = [scale * length**power for length in LENGTHS]
    assert exponent(LENGTHS, costs) == pytest.approx(power, abs=1e-4)


def test_short_sequences_do_not_count_in_the_fit() -> None:
    costs = [1.0 if length < 512 else 3.0 * length**2 for length in LENGTHS]
    assert exponent(LENGTHS, costs) == pytest.approx(2)


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("self-attention", lambda n: 8 * n * WIDTH**2 + 4 * n**2 * WIDTH),
        ("restricted, r = 32", lambda n: 8 * n * WIDTH**2 + 12 * n * RADIUS * WIDTH),
        ("recurrent", lambda n: 16 * n * WIDTH**2),
        ("convolution, k = 3", lambda n: 6 * n * WIDTH**2),
    ],
)
def test_the_arithmetic_is_that_of_the_published_formulas(
    name: str, operations: Callable[[int], int]
) -> None:
    (layer,) = (layer for layer in LAYERS if layer.name == name)
    x = torch.randn(1, 4 * RADIUS, WIDTH, requires_grad=True)
    forward = operations(4 * RADIUS)
    # Backward, each product makes two: its recurrent one less in the first step, from a zero state.
    lacking = 8 * WIDTH**2 if name == "recurrent" else 0
    assert count_operations(lambda: apply(layer.make(), x).sum().backward()) == (
        3 * forward - lacking
    )


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_a_layer_keeps_the_shape_of_its_sequence(layer: Layer) -> None:
    x = torch.randn(1, RADIUS + 3, WIDTH)
    assert apply(layer.make(), x).shape == x.shape


def test_peak_memory_is_what_lives_at_once() -> None:
    x = torch.randn(100, 100)

    def kept_and_dropped() -> torch.Tensor:
        kept = x + 1
        dropped = x + 2
        del dropped
        return kept + 3

    assert SQUARE <= claimed_bytes(lambda: x + 1, CPU) < SQUARE + SCALARS
    assert claimed_bytes(lambda: x.t().view(-1, 100)[:50], CPU) == 0
    assert 2 * SQUARE <= claimed_bytes(kept_and_dropped, CPU) < 2 * SQUARE + SCALARS
    assert claimed_bytes(lambda: x.add_(1), CPU) < SCALARS


def test_what_the_backward_pass_needs_is_counted() -> None:
    x = torch.randn(100, 100, requires_grad=True)
    x.grad = torch.zeros(100, 100)

    def step() -> None:
        torch.sigmoid(torch.sigmoid(x)).sum().backward()  # each keeps its result

    first = claimed_bytes(step, CPU)
    assert 3 * SQUARE <= first < 3 * SQUARE + SCALARS
    assert claimed_bytes(step, CPU) == first


@pytest.fixture
def _briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "SECONDS_EACH", 1e-4)
    monkeypatch.setattr(layers, "LENGTHS", (32, 64, 128, 256))


@pytest.mark.usefixtures("_briefly")
def test_layers_are_a_table_or_json_and_a_picture(tmp_path: Path, capsys: Capture) -> None:
    bench_layers("cpu", tmp_path / "layers.svg", as_json=True)
    record = json.loads(capsys.readouterr().out)
    assert record["lengths"] == [32, 64, 128, 256]
    assert [of["layer"] for of in record["layers"]] == [layer.name for layer in LAYERS]
    whole, restricted, *_ = record["layers"]
    assert whole["exponents"]["memory"] > 1.4 > restricted["exponents"]["memory"]
    for of in record["layers"]:
        assert min(of["seconds"]) > 0
        assert of["bytes"] == sorted(of["bytes"])
    assert (tmp_path / "layers.svg").read_bytes().startswith(b"<?xml")
    bench_layers("cpu", None, as_json=False)
    text = capsys.readouterr().out
    for layer in LAYERS:
        assert f"O({layer.time})\n" in text and f"O({layer.memory})\n" in text


def test_a_picture_that_cannot_be_is_told_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="picture"):
        bench_layers("auto", tmp_path / "layers.txt", as_json=False)
