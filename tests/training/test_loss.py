"""The fused output projection and loss against the naive formula, gradients by autograd."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.symbols import PAD
from mtkit.training.loss import CHUNK_TOKENS, TrainingLoss, projected_loss
from steps import draw_pairs, pack, rectangles
from tasks import tiny_config


def example(rows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(rows)
    hidden = torch.randn(2 * rows, 6, dtype=dtype, requires_grad=True)
    weight = torch.randn(11, 6, dtype=dtype, requires_grad=True)
    target = torch.randint(1, 11, (2 * rows,))
    target[rows + rows // 2 :] = PAD
    return hidden, weight, target


def naive(hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> Tensor:
    total = hidden.new_zeros(())
    for vector, gold in zip(hidden, target, strict=True):
        if gold != PAD:
            log_probs = torch.log_softmax(weight @ vector, dim=-1)
            total = total - (1 - smoothing) * log_probs[gold] - smoothing * log_probs.mean()
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("rows", [1, 5, CHUNK_TOKENS["cpu"]])
def test_loss_and_gradients_equal_the_naive_formula(rows: int, smoothing: float) -> None:
    hidden, weight, target = example(rows)
    loss = projected_loss(hidden, weight, target, smoothing)
    ours = torch.autograd.grad(loss.smoothed * 1.7, (hidden, weight))
    expected = naive(hidden, weight, target, smoothing)
    theirs = torch.autograd.grad(expected * 1.7, (hidden, weight))
    torch.testing.assert_close(loss.smoothed, expected)
    torch.testing.assert_close(loss.nll, naive(hidden, weight, target, 0.0))
    torch.testing.assert_close(ours, theirs)


def test_bfloat16_products_stay_near_float32() -> None:
    hidden, weight, target = example(200, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss = projected_loss(hidden, weight, target, 0.1)
    expected = F.cross_entropy(
        hidden @ weight.T, target, ignore_index=PAD, label_smoothing=0.1, reduction="sum"
    )
    assert loss.smoothed.dtype == torch.float32
    assert loss.smoothed.item() == pytest.approx(expected.item(), rel=5e-3)
    ours = torch.autograd.grad(loss.smoothed, (hidden, weight))
    theirs = torch.autograd.grad(expected, (hidden, weight))
    for got, wanted in zip(ours, theirs, strict=True):
        assert (got - wanted).norm() < 0.02 * wanted.norm()


# An LSTM runs in float32, so that the loss's own rounding is more of what is left to compare.
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "most"), [("transformer", 1.1), ("seq2seq", 1.3)])
def test_bfloat16_gradients_are_as_accurate_as_plain_autocast(kind: str, most: float) -> None:
    def gradient(fused: bool, precision: str) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, precision == "bfloat16"):
            if fused:
                loss = TrainingLoss(model, 0.1)(pack(pairs)).smoothed
            else:
                source, target, gold = rectangles(pairs)
                logits = model.project(model(source, source != PAD, target)).float()
                loss = F.cross_entropy(
                    logits.flatten(0, 1), gold.flatten(), label_smoothing=0.1, reduction="sum"
                )
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        return torch.cat([part.flatten() for part in gradients])

    errors = torch.zeros(2)
    for seed in range(10):
        torch.manual_seed(seed)
        model = EncoderDecoder(tiny_config(Path(), kind).model, 200, 200).eval()
        with torch.no_grad():  # as after some training: nearly even predictions round all alike
            model.output_weight.mul_(4)
        pairs = draw_pairs([(8, 8)] * 24, seed=seed, vocab=200)
        exact = gradient(fused=False, precision="float32")
        for index, fused in enumerate((True, False)):
            errors[index] += (gradient(fused, "bfloat16") - exact).norm()
    assert 0 < errors[0] < most * errors[1]


def test_extreme_logits_neither_overflow_nor_underflow() -> None:
    hidden = torch.tensor([[1000.0, 0.0]], requires_grad=True)
    weight = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    right = projected_loss(hidden, weight, torch.tensor([1]), 0.0)
    wrong = projected_loss(hidden, weight, torch.tensor([2]), 0.0)
    assert right.smoothed.item() == 0
    assert wrong.smoothed.item() == 2000


def test_a_batch_of_only_padding_has_loss_and_gradient_zero() -> None:
    hidden, weight, target = example(4)
    loss = projected_loss(hidden, weight, torch.zeros_like(target), 0.1)
    loss.smoothed.backward()
    assert loss.smoothed.item() == 0
    assert weight.grad is not None
    assert not weight.grad.any()
