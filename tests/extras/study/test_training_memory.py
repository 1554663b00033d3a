"""The memory that a config needs: computed as a training takes it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from architectures import seq2seq, transformer
from commands import call
from folders import train
from mtkit.config.model import EncoderDecoderSettings
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.errors import UserError
from mtkit.extras.study import memory as module
from mtkit.extras.study.bench.sample import draw_batches
from mtkit.extras.study.memory import check_memory, compute_memory, tabulate_memory
from mtkit.models.device import Precision
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.training.batch import pack_batch
from mtkit.training.gradients import Gradients
from mtkit.training.loss import TrainingLoss
from mtkit.training.optimizers import build_optimizer, step_where
from tasks import Capture, Fresh, tiny_config

TOKENIZER = train()
OPTIMIZERS: list[dict[str, Any]] = [
    {"kind": "adam"},
    {"kind": "muon"},
    {"kind": "sgd"},
    {"kind": "sgd", "momentum": 0.5},
]


def configured(folder: Path, **training: Any) -> Config:
    return tiny_config(folder, "transformer", training=training)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_states_are_those_of_weights_gradients_and_optimizer(
    optimizer: dict[str, Any], tmp_path: Path
) -> None:
    config = configured(tmp_path, optimizer=optimizer)
    size = TOKENIZER.source_vocab
    model = EncoderDecoder(config.model, size, size)
    gradients = Gradients(model.parameters())
    states = build_optimizer(model, config.training.optimizer)
    step_where(torch.tensor(True), states)
    tensors: list[Tensor] = [*model.parameters(), gradients.flat]
    for state in states.state.values():
        tensors += [value for name, value in state.items() if name != "step" and value is not None]
    computed = compute_memory(config, TOKENIZER, "cpu", "float32")
    assert computed.parameters == sum(parameter.numel() for parameter in model.parameters())
    # Gradients begin at multiples of 64 bytes.
    assert computed.states == pytest.approx(sum(tensor.nbytes for tensor in tensors), rel=0.02)


@pytest.mark.parametrize(
    ("settings", "precision"),
    [
        (transformer(d_model=256, ffn=768, layers=2, dropout=0.1), "float32"),
        (transformer(d_model=256, ffn=768, layers=2, dropout=0.1), "bfloat16"),
        (seq2seq(d_model=128, layers=2, dropout=0.1), "float32"),
    ],
)
def test_activations_are_about_those_that_autograd_keeps(
    settings: EncoderDecoderSettings, precision: Precision, tmp_path: Path
) -> None:
    config = configured(tmp_path).model_copy(update={"model": settings})
    model = EncoderDecoder(settings, 20, 20)
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = np.full(8 * 63, 5), np.full(8, 63)
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, precision == "bfloat16"),
    ):
        loss = TrainingLoss(model, 0.1)(pack_batch(ids, ids))
    assert math.isfinite(loss.nll)
    computed = module._batch_bytes(config, 512, 20, "cpu", precision)
    assert computed == pytest.approx(sum(kept.values()), rel=0.25)


def test_what_fits_is_said_for_this_machine_and_usual_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path, device="cpu", precision="auto")
    data = draw_batches(tmp_path, 20, seed=1, pairs=500)
    need = compute_memory(config, TOKENIZER, "cpu", "float32", data)
    monkeypatch.setattr(module, "memory_limit_bytes", lambda: need.least + 1)
    _, here, small, large = tabulate_memory(config, TOKENIZER, data)
    assert here[-1] == "fits with smaller batches" and here[0].startswith("this machine, ")
    assert [row[0] for row in (small, large)] == [
        "GPU of 16 GB, bfloat16",
        "GPU of 80 GB, bfloat16",
    ]
    assert small[-1] == large[-1] == "fits"


@pytest.mark.parametrize(
    ("training", "advice"),
    [
        ({"optimizer": {"kind": "muon"}}, ": choose a smaller model or"),
        ({}, ": choose training.optimizer.kind muon, which keeps less; or choose a smaller model"),
        ({"init_from": "m"}, ": set tokenizer.drop_unused; or choose training.optimizer.kind muon"),
    ],
)
def test_what_cannot_fit_is_refused_with_what_helps(
    training: dict[str, Any], advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path, device="cpu", **training)
    check_memory(config, TOKENIZER)
    monkeypatch.setattr(module, "memory_limit_bytes", lambda: 1e5)
    with pytest.raises(
        UserError, match=r"needs 0\.0 GB for weights, .* there are 0\.0 GB"
    ) as caught:
        check_memory(config, TOKENIZER)
    assert advice in str(caught.value)
    monkeypatch.setenv("WORLD_SIZE", "2")
    check_memory(config, TOKENIZER)


def test_a_batch_that_cannot_fit_beside_the_states_is_refused_on_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path, device="cpu")
    need = compute_memory(config, TOKENIZER, "cpu", "float32")
    monkeypatch.setattr(module, "memory_limit_bytes", lambda: need.states + need.batch - 1)
    with pytest.raises(UserError, match=r"for a batch, but .*: lower batching\.max_tokens$"):
        check_memory(config, TOKENIZER, draw_batches(tmp_path / "large", 20, seed=1, pairs=500))
    # No batch is larger than the corpus.
    check_memory(config, TOKENIZER, draw_batches(tmp_path / "small", 20, seed=1, pairs=1))
    check_memory(config, TOKENIZER)  # `init` will choose batches that fit


def test_training_that_cannot_fit_is_refused_before_any_step(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    config = fresh("transformer", training={"device": "cpu"})
    Path("mtkit.yaml").write_text(dump_config(config), encoding="utf-8")
    monkeypatch.setattr(module, "memory_limit_bytes", lambda: 1e5)
    for options, lines in (((), 0), (("--dry-run", "1"), 5)):
        assert call("train", *options) == 2
        out, err = capsys.readouterr()
        assert err.startswith("training ") and len(err.splitlines()) == 1
        assert out.count("GB") >= lines
    assert not (Path(config.run) / "checkpoints").exists()
