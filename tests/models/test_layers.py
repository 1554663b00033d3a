"""Positional encodings, norms, feed-forward and dropout against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from mtkit.config.model import TransformerLayers
from mtkit.models.attention import MultiHeadAttention
from mtkit.models.layers import (
    Dropout,
    FeedForward,
    PositionalEncodings,
    PostNorm,
    PreNorm,
    compute_sinusoids,
)
from mtkit.models.layout import Layout


@pytest.mark.parametrize("d_model", [2, 6, 128])
def test_sinusoids_follow_the_published_formula_in_split_halves(d_model: int) -> None:
    table = compute_sinusoids(50, d_model)
    for position in (0, 1, 7, 49):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            assert table[position, i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, d_model // 2 + i].item() == pytest.approx(
                math.cos(angle), abs=1e-6
            )


def test_sinusoidal_positions_work_at_any_length() -> None:
    short, long = (PositionalEncodings("sinusoidal", 32) for _ in range(2))
    before = short(0, 10).clone()
    late = long(5000, 3)
    torch.testing.assert_close(late, compute_sinusoids(5003, 32)[5000:])
    torch.testing.assert_close(long(0, 10), before)


def test_without_positions_the_encodings_are_zeros_at_any_length() -> None:
    assert torch.equal(PositionalEncodings("none", 6)(5000, 3), torch.zeros(3, 6))


def test_post_norm_normalises_the_residual_sum() -> None:
    residual, x, y = PostNorm(8, 0.0), torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    assert residual.before(x) is x
    torch.testing.assert_close(residual.after(x, y), F.layer_norm(x + y, [8]))


def test_pre_norm_normalises_the_sublayer_input() -> None:
    residual, x, y = PreNorm(8, 0.0), torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    torch.testing.assert_close(residual.before(x), F.layer_norm(x, [8]))
    torch.testing.assert_close(residual.after(x, y), x + y)


@pytest.mark.parametrize("activation", ["relu", "gelu", "swish", "gated"])
def test_feed_forward_is_its_equation(activation: str) -> None:
    layer = FeedForward(TransformerLayers.model_validate({"ffn": 12, "activation": activation}), 8)
    x = torch.randn(2, 3, 8)
    inner = x @ layer.expand.weight.T + layer.expand.bias
    if activation == "relu":
        inner = inner.clamp_min(0)
    elif activation == "gelu":
        inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    elif activation == "swish":
        inner = inner * torch.sigmoid(inner)
    else:
        gate, value = inner[..., :12], inner[..., 12:]
        inner = gate * torch.sigmoid(gate) * value
    torch.testing.assert_close(layer(x), inner @ layer.contract.weight.T + layer.contract.bias)


def test_a_new_sublayer_adds_little_to_the_residual_sum() -> None:
    torch.manual_seed(0)
    x, attention = torch.randn(2, 5, 64), MultiHeadAttention(64, 4, 0.0)
    layout = Layout.full(x)
    attended, _ = attention(*attention.query_keys_values(x, layout), None, layout)
    expanded = FeedForward(TransformerLayers(ffn=128), 64)(x)
    for added in attended, expanded:
        assert 0 < added.norm() < 0.15 * x.norm()


@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
def test_dropout_zeroes_a_share_p_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    dropout, x = Dropout(p), torch.ones(1000, 999)
    dropped = dropout(x)
    assert (dropped == 0).float().mean().item() == pytest.approx(p, abs=0.005)
    assert dropped.mean().item() == pytest.approx(1, abs=0.01)
    assert len(dropped.unique()) == 2
    # Independent: neighbours and the eight places cut from one random number.
    zero = (dropped == 0).flatten()[: 8 * 100_000].view(-1, 8).float()
    correlation = torch.corrcoef(zero.T) - torch.eye(8)
    assert correlation.abs().max().item() < 0.02


def test_dropout_with_p_near_1_keeps_some_elements() -> None:
    dropped = Dropout(0.9999)(torch.ones(1000, 999))
    assert 0 < dropped.count_nonzero() < 0.01 * dropped.numel()
    assert dropped.isfinite().all()


def test_the_gradient_of_dropout_is_its_mask() -> None:
    x = torch.ones(50, 50, requires_grad=True)
    dropped = Dropout(0.5)(x)
    dropped.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, dropped.detach())


def test_dropout_follows_the_seed_and_is_off_in_evaluation() -> None:
    dropout, x = Dropout(0.5), torch.ones(40, 40)
    torch.manual_seed(7)
    first = dropout(x)
    torch.manual_seed(7)
    assert torch.equal(first, dropout(x))
    assert not torch.equal(first, dropout(x))
    assert dropout.eval()(x) is x
