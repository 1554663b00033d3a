"""A model that is accelerated for a GPU has the weights and the gradients of the plain model.

On a machine without a GPU, Triton's interpreter runs the kernels, if Triton is installed.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch
from pytest import MonkeyPatch
from torch import Tensor

from architectures import ARCHITECTURES, VOCAB, make
from mtkit.config.model import TransformerSettings
from mtkit.extras.gpu import accelerate as door
from mtkit.extras.gpu import linear
from mtkit.extras.gpu.accelerate import GpuAcceleration, accelerate, can_share_rows
from mtkit.extras.gpu.attention import InPlace, _Chunk
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.layers import Dropout
from mtkit.models.layout import Packed
from mtkit.training.batch import Batch
from mtkit.training.loss import TrainingLoss
from steps import draw_pairs, pack

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HAS_TRITON = find_spec("triton") is not None
LENGTHS = [(3, 5), (1, 7), (6, 1), (2, 2), (7, 1), (1, 1), (4, 6)]
BATCH = pack(draw_pairs(LENGTHS), min_width=16).to(DEVICE)
"""A batch in which several sentences share a row."""

needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)


@pytest.fixture
def _kernels(monkeypatch: MonkeyPatch) -> None:
    """Let accelerated models use the kernels, also where only the interpreter runs them."""
    monkeypatch.setattr(door, "runs_triton", lambda device: HAS_TRITON)
    if HAS_TRITON and DEVICE.type == "cpu":
        # The interpreter runs one program after the other, and a CPU has no products of two types.
        monkeypatch.setattr("mtkit.extras.gpu.kernels.PARTIAL_SUMS", 4)
        monkeypatch.setattr(linear, "_multiply", lambda a, b, dtype: a.to(dtype) @ b.to(dtype))


def gradients(model: EncoderDecoder, batch: Batch) -> list[Tensor]:
    """Return the loss of the batch, and its gradients; None becomes zeros."""
    loss = TrainingLoss(model, 0.1)(batch).smoothed
    parameters = list(model.parameters())
    return [loss, *torch.autograd.grad(loss, parameters, materialize_grads=True)]


def in_place(batch: Batch) -> Batch:
    return replace(
        batch,
        source_layout=InPlace.of(batch.source_layout),
        target_layout=InPlace.of(batch.target_layout),
    )


@pytest.mark.usefixtures("_kernels")
@every_architecture
def test_accelerated_weights_keep_their_names_and_places(name: str) -> None:
    model = make(name)
    before = dict(model.named_parameters())
    names = list(model.state_dict())
    accelerate(model)
    assert list(model.state_dict()) == names
    after = dict(model.named_parameters())
    assert after.keys() == before.keys()
    assert all(after[key] is before[key] for key in before)


@pytest.mark.usefixtures("_kernels")
@every_architecture
def test_an_accelerated_model_has_the_gradients_of_the_plain_one(name: str) -> None:
    torch.manual_seed(1)
    plain = make(name).float().to(DEVICE).train()
    for module in plain.modules():
        if isinstance(module, Dropout):
            module.p = 0.0
    fast = accelerate(deepcopy(plain))
    batch = BATCH if can_share_rows(plain) else pack(draw_pairs(LENGTHS)).to(DEVICE)
    torch.testing.assert_close(
        gradients(fast, batch), gradients(plain, batch), rtol=1e-5, atol=1e-5
    )


@needs_triton
@pytest.mark.usefixtures("_kernels")
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_attention_in_place_has_the_gradients_of_padded_rows(norm: str) -> None:
    torch.manual_seed(1)
    settings = TransformerSettings.model_validate(
        {"layers": 2, "d_model": 32, "ffn": 48, "heads": 2, "dropout": 0.0, "norm": norm}
    )
    plain = EncoderDecoder(settings, VOCAB, VOCAB).to(DEVICE).train()
    fast = accelerate(deepcopy(plain))
    ours = gradients(fast, in_place(BATCH))
    torch.testing.assert_close(ours, gradients(plain, BATCH), rtol=1e-5, atol=1e-5)


@needs_triton
@pytest.mark.usefixtures("_kernels")
@pytest.mark.parametrize("d_model", [32, 24])  # heads of 16 dimensions; of 12: no kernel
def test_half_precision_attends_in_place_where_the_kernel_suits_all_attentions(
    d_model: int, monkeypatch: MonkeyPatch
) -> None:
    torch.manual_seed(1)
    settings = TransformerSettings(layers=1, d_model=d_model, ffn=48, heads=2, dropout=0.0)
    model = EncoderDecoder(settings, VOCAB, VOCAB).to(DEVICE).train()
    plain = deepcopy(model)
    fast = accelerate(model)
    made: list[Packed] = []
    create = InPlace.of

    def note(layout: Packed) -> InPlace:
        made.append(layout)
        return create(layout)

    monkeypatch.setattr(InPlace, "of", note)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        ours = gradients(fast, BATCH)
        theirs = gradients(plain, BATCH)
    assert len(made) == (2 if d_model == 32 else 0)
    if DEVICE.type == "cpu":
        return  # the interpreter is not exact for 16-bit numbers
    for our, their in zip(ours, theirs, strict=True):
        assert (our - their).abs().max() <= 3e-2 * max(1.0, their.abs().max().item())


@pytest.mark.usefixtures("_kernels")
@every_architecture
def test_an_accelerated_model_outside_of_training_computes_what_the_plain_one_does(
    name: str,
) -> None:
    plain = make(name).float().to(DEVICE).eval()
    fast = accelerate(deepcopy(plain))
    batch = pack(draw_pairs(LENGTHS)).to(DEVICE)
    with torch.inference_mode():
        ours, theirs = (TrainingLoss(model, 0.1)(batch).nll for model in (fast, plain))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_gradients_of_parts_are_joined_wherever_they_lie(order: tuple[int, int]) -> None:
    x, memory = torch.randn(3, 8, requires_grad=True), torch.randn(3, 8)
    grads = [memory.chunk(2, dim=-1)[index] for index in order]
    (joined,) = torch.autograd.grad(_Chunk.apply(x, 2), x, grads)  # type: ignore[no-untyped-call]
    assert torch.equal(joined, torch.cat(grads, dim=-1))


@needs_triton
@pytest.mark.usefixtures("_kernels")
def test_the_loss_of_training_is_computed_by_the_fused_softmax(monkeypatch: MonkeyPatch) -> None:
    model = make("transformer").float().to(DEVICE)
    plain = gradients(model, BATCH)
    acceleration = GpuAcceleration()
    softmax = acceleration.find_softmax(torch.empty(1, VOCAB, device=DEVICE))
    assert softmax is not None
    used: list[int] = []

    def count_rows(logits: Tensor, gold: Tensor, smoothing: float) -> Tensor:
        used.append(len(logits))
        return softmax(logits, gold, smoothing)

    monkeypatch.setattr(acceleration, "find_softmax", lambda logits: count_rows)
    monkeypatch.setattr("mtkit.training.loss.find_acceleration", lambda device: acceleration)
    fused = gradients(model, BATCH)
    assert sum(used) == len(BATCH.target_output)
    for before, after in zip(plain, fused, strict=True):
        torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-4)
