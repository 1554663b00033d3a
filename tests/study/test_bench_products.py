"""What `mtkit bench` says of an update: which products it is made of, and where its time goes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from architectures import (
    ARCHITECTURES,
    VOCAB,
    seq2seq,
    sources,
    targets,
    transformer,
    untrained_state,
)
from mtkit.config.model import ModelSettings
from mtkit.models.device import Precision
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.study.bench.ceiling import Product, products_of
from mtkit.study.bench.train import DATA, OPTIMIZER, Clock, measure_breakdown
from mtkit.study.bench.watching import REST, part_names, telling
from mtkit.study.bench.workload import open_workload
from mtkit.symbols import PAD
from mtkit.terms import Batch
from mtkit.training.state import TrainState
from tasks import tiny_config

product = partial(Product, precision="float32")
COUNTED: Mapping[str, ModelSettings] = ARCHITECTURES | {
    "transformer-no-block-is-whole": transformer(neighbourhood=3),
    "seq2seq-additive-feeding": seq2seq(attention="additive", layers=3),
    "seq2seq-dot-at-once": seq2seq(attention="dot", input_feeding=False, bidirectional=False),
}


def state_of(settings: ModelSettings, precision: Precision = "float32") -> TrainState:
    torch.manual_seed(1)
    config = tiny_config(Path(), "transformer").model_copy(update={"model": settings})
    return untrained_state(EncoderDecoder(settings, VOCAB, VOCAB), config.training, precision)


def batch_of(source: list[int], target: int) -> Batch:
    """As many sentences as `source` has lengths; the last symbols of the second are padding."""
    output = targets(len(source), target)
    output[1, -2:] = PAD
    return Batch(sources(source), targets(len(source), target), output, int((output != PAD).sum()))


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTED)
def test_the_products_of_a_step_are_those_that_torch_counts(name: str) -> None:
    """torch counts in float64, where an LSTM is made of matrix products that it can see."""
    state, batch = state_of(COUNTED[name]), batch_of([7, 5, 2], 6)
    products = products_of(state, batch)
    state.objective.double()
    with FlopCounterMode(display=False) as counter:
        state.objective(batch.source, batch.target_input, batch.target_output).smoothed.backward()
    assert sum(each.flops for each in products) == counter.get_total_flops()


def test_the_shapes_are_those_of_the_model_and_the_batch() -> None:
    settings = transformer(layers=3, ffn=40)
    products = set(products_of(state_of(settings), batch_of([7, 5, 2], 6)))
    for rows in (3 * 7, 3 * 6):  # the encoder's and the decoder's
        assert product("FeedForward", rows, 16, 40, "nt", count=3) in products
        assert product("FeedForward", rows, 40, 16, "nn", count=3) in products
        assert product("FeedForward", 40, rows, 16, "tn", count=3) in products
    # Query, key, value and output of three layers; keys and values of three on the source.
    assert product("MultiHeadAttention", 21, 16, 16, "nt", count=3 * 4 + 3 * 2) in products
    assert product("MultiHeadAttention", 18, 16, 16, "nt", count=3 * 4 + 3 * 2) in products
    assert product("Objective", 16, 16, VOCAB, "nt") in products
    assert product("Objective", VOCAB, 16, 16, "tn") in products


def test_a_weight_that_every_step_uses_has_one_product_as_its_gradient() -> None:
    settings = seq2seq(attention="dot", layers=1)
    products = set(products_of(state_of(settings), batch_of([7, 5, 2], 6)))
    assert product("LSTM", 3, 32, 64, "nt", count=6) in products
    assert product("LSTM", 3, 64, 32, "nn", count=6) in products
    assert product("LSTM", 64, 6 * 3, 32, "tn") in products


@pytest.mark.parametrize("name", ["transformer", "seq2seq-general"])
def test_precision_is_that_of_each_product_and_recording_changes_nothing(name: str) -> None:
    batch = batch_of([7, 5, 2], 6)
    states = [state_of(ARCHITECTURES[name], precision) for precision in ("float32", "bfloat16")]
    before = {key: value.clone() for key, value in states[0].model.state_dict().items()}
    of_float32, of_bfloat16 = (products_of(state, batch) for state in states)
    # An LSTM stays in float32 on a CPU.
    assert {(of.part, of.precision) for of in of_bfloat16} == {
        (of.part, "float32" if of.part == "LSTM" else "bfloat16") for of in of_float32
    }
    assert of_float32 == [replace(of, precision="float32") for of in of_bfloat16]
    assert torch.backends.mkldnn.enabled
    for name, value in states[0].model.state_dict().items():
        assert value.equal(before[name])
    assert all(parameter.grad is None for parameter in states[0].model.parameters())


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.query(x) @ self.key(x).T @ x  # type: ignore[no-any-return]


class Model(nn.Module):
    """Pieces, lists of pieces, and a part that is made of pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.layers = nn.ModuleList([nn.LSTM(4, 4), nn.LSTM(4, 4)])
        self.attention = Attention()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)[0]
        return self.attention(x).exp().sum()  # type: ignore[no-any-return]


def test_a_part_is_a_class_and_pieces_belong_to_what_is_made_of_them() -> None:
    assert part_names(Model()) == {
        REST: REST,
        "": "Model",
        "embedding": "Embedding",
        "layers": "ModuleList",
        "layers.0": "LSTM",
        "layers.1": "LSTM",
        "attention": "Attention",
        "attention.query": "Attention",
        "attention.key": "Attention",
    }


def test_the_backward_pass_of_a_module_is_told_as_its_own() -> None:
    model, told = Model(), list[str]()
    with telling(model, told.append):
        loss = model(torch.arange(5))
        forward = list(dict.fromkeys(told))
        told.clear()
        loss.backward()
    modules = ["layers.0", "layers.1", "attention", "attention.query", "attention.key"]
    assert forward == ["", "embedding", *modules, REST]
    assert list(dict.fromkeys(told))[:2] == ["", "attention"]
    assert set(told) == {"", "embedding", *modules}
    assert [name for name in dict.fromkeys(told) if "layers" in name] == ["layers.1", "layers.0"]


def test_nothing_is_told_afterwards() -> None:
    model, told = Model(), list[str]()
    with telling(model, told.append):
        pass
    model(torch.arange(5)).backward()
    assert not told
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_a_clock_divides_all_of_the_time() -> None:
    clock, ticks = Clock(torch.device("cpu")), iter([0.0, 1.0, 1.5, 3.5])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.perf_counter", lambda: next(ticks))
        for name in ("a", "b", "a", "end"):
            clock.tell(name)
    assert clock.milliseconds() == {"a": 3000.0, "b": 500.0, "end": 0.0}


SMALL = ["batching.max_tokens=512", "training.device=cpu", "training.precision=float32"]
OF_A_TRANSFORMER = ["layers=1", "d_model=16", "ffn=16", "heads=2"]
OF_A_SEQ2SEQ = ["kind=seq2seq", "layers=1", "d_model=16", "input_feeding=false"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "parts"),
    [
        (OF_A_TRANSFORMER, {"MultiHeadAttention", "FeedForward", "PostNorm"}),
        (OF_A_SEQ2SEQ, {"LSTM", "GeneralAttention"}),
    ],
    ids=["transformer", "seq2seq"],
)
def test_a_breakdown_names_every_part_that_is_there(
    model: list[str], parts: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.perf_counter", time.process_time)  # what others do takes no time
    overrides = [*SMALL, *(f"model.{setting}" for setting in model)]
    with open_workload(None, "tiny", overrides) as workload:
        record = measure_breakdown(workload, {"FeedForward": 0.5})
    divided, operators = record["breakdown"], record["operators"]
    assert divided.keys() >= parts | {"Embedding", "Dropout", "Objective", OPTIMIZER, DATA}
    for costs in (divided.values(), operators):
        shares = [cost["share"] for cost in costs]
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) < 1.01
    assert sum(cost["ms"] for cost in divided.values()) == pytest.approx(
        record["divided_update_ms"], rel=0.02
    )
    assert divided.get(REST, {"share": 0.0})["share"] < 0.1
    if "FeedForward" in parts:
        assert divided["FeedForward"]["limit_ms"] == 500
