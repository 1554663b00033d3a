"""Each kind of attention against its equation written out, or against torch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pytest import MonkeyPatch
from torch import Tensor

from mtkit.models.attention import (
    AdditiveAttention,
    DotAttention,
    GeneralAttention,
    GlobalAttention,
    MultiHeadAttention,
    NeighbourhoodAttention,
)
from mtkit.models.layout import Layout, build_causal_bias, mask_to_bias
from operations import Operations

D = 16


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)


def attend(
    attention: MultiHeadAttention, x: Tensor, bias: Tensor | None, *, weights: bool = False
) -> Any:
    """Return the self-attention of sentences without padding, and its weights if requested."""
    layout = Layout.full(x)
    return attention(*attention.query_keys_values(x, layout), bias, layout, with_weights=weights)


def reference_multi_head(ours: MultiHeadAttention) -> torch.nn.MultiheadAttention:
    theirs = torch.nn.MultiheadAttention(D, ours.heads, batch_first=True).double()
    parts = [ours.query, ours.key, ours.value]
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    return theirs


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_multi_head_attention_equals_torch(heads: int) -> None:
    ours = MultiHeadAttention(D, heads, 0.0).double()
    query, memory = torch.randn(3, 5, D).double(), torch.randn(3, 7, D).double()
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1, 4:] = False
    bias = mask_to_bias(mask)[:, None, None]
    of_query, of_memory = Layout.full(query), Layout.full(memory)
    queries, memories = ours.queries(query, of_query), ours.keys_values(memory, of_memory)
    output, weights = ours(queries, memories, bias, of_query, with_weights=True)
    expected, expected_weights = reference_multi_head(ours)(
        query, memory, memory, key_padding_mask=~mask, average_attn_weights=False
    )
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)


def test_masked_self_attention_gives_later_positions_no_weight() -> None:
    attention = MultiHeadAttention(D, 4, 0.0).double()
    x = torch.randn(2, 6, D).double()
    causal = build_causal_bias(6, 0, x.device)
    _, weights = attend(attention, x, causal, weights=True)
    assert weights is not None
    assert weights.triu(1).abs().max() == 0
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 6).double())


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 20])
@pytest.mark.parametrize("radius", [1, 2, 3, 5, 30])
def test_restricted_attention_equals_attention_under_a_band_mask(length: int, radius: int) -> None:
    near = NeighbourhoodAttention(D, 2, 0.0, radius).double()
    whole = MultiHeadAttention(D, 2, 0.0).double()
    whole.load_state_dict(near.state_dict())
    x = torch.randn(2, length, D).double()
    real = torch.ones(2, length, dtype=torch.bool)
    real[1, max(1, length - 2) :] = False
    position = torch.arange(length)
    band = (position - position[:, None]).abs() <= radius
    banded = mask_to_bias(band & real[:, None, None])
    expected, expected_weights = attend(whole, x, banded, weights=True)
    assert expected_weights is not None
    output, weights = attend(near, x, mask_to_bias(real)[:, None, None], weights=True)
    assert weights is not None
    torch.testing.assert_close(output[real], expected[real])
    by_query = (weights.transpose(1, 2), expected_weights.transpose(1, 2))  # (B, S, H, S)
    torch.testing.assert_close(by_query[0][real], by_query[1][real])
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, length).double())


def test_restricted_attention_needs_no_quadratic_memory() -> None:
    attention = NeighbourhoodAttention(D, 2, 0.0, 4)
    x = torch.randn(1, 4096, D)
    bias = mask_to_bias(torch.ones(1, 1, 1, 4096) > 0)
    sizes = []
    with Operations(lambda *it: sizes.append(it[2].numel() if isinstance(it[2], Tensor) else 0)):
        _, weights = attend(attention, x, bias)
    assert weights is None
    assert 0 < max(sizes) < 4096 * 4096 / 10


States = tuple[Tensor, Tensor]


@pytest.fixture
def states() -> States:
    """Four states of a decoder and six of an encoder."""
    return torch.randn(4, D).double(), torch.randn(6, D).double()


def assert_attends_with(scores: Tensor, attention: GlobalAttention, states: States) -> None:
    """Compare with the weights of these scores, (4, 6), and s̃ = tanh(W [a; s] + b)."""
    decoder, encoder = states
    alpha = torch.softmax(scores, dim=-1)
    both = torch.cat([alpha @ encoder, decoder], dim=-1)
    expected = both @ attention.combine.weight.T
    if attention.combine.bias is not None:
        expected = expected + attention.combine.bias
    memory, mask = encoder[None], torch.ones(1, 6, dtype=torch.bool)
    combined, weights = attention(decoder[None], attention.keys(memory), memory, mask)
    torch.testing.assert_close(weights[0], alpha)
    torch.testing.assert_close(combined[0], torch.tanh(expected))


def test_dot_attention_is_its_equation(states: States) -> None:
    scores = torch.stack([torch.stack([s @ h for h in states[1]]) for s in states[0]])
    assert_attends_with(scores, DotAttention(D).double(), states)


def test_general_attention_is_its_equation(states: States) -> None:
    attention = GeneralAttention(D).double()
    w_a = attention.bilinear.weight  # (h_enc W^T): the W_a of h_dec · W_a · h_enc^T
    assert attention.combine.bias is None
    assert_attends_with(states[0] @ w_a @ states[1].T, attention, states)


def test_additive_attention_is_its_equation(states: States) -> None:
    attention = AdditiveAttention(D).double()
    w, u = attention.project_query.weight, attention.project_key.weight
    v = attention.score.weight[0]
    scores = [[v @ torch.tanh(w @ s + u @ h) for h in states[1]] for s in states[0]]
    assert_attends_with(torch.stack([torch.stack(row) for row in scores]), attention, states)


def test_masked_positions_do_not_change_global_attention() -> None:
    for kind in (DotAttention, GeneralAttention, AdditiveAttention):
        attention = kind(D).double()
        states, memory = torch.randn(2, 3, D).double(), torch.randn(2, 6, D).double()
        mask = torch.ones(2, 6, dtype=torch.bool)
        mask[:, 4:] = False
        masked, _ = attention(states, attention.keys(memory), memory, mask)
        short = memory[:, :4]
        cut, _ = attention(states, attention.keys(short), short, mask[:, :4])
        torch.testing.assert_close(masked, cut)


@pytest.mark.parametrize("masked", [False, True])
def test_the_fused_kernel_of_gpus_gives_equal_results(
    masked: bool, monkeypatch: MonkeyPatch
) -> None:
    attention = MultiHeadAttention(D, 4, 0.0)
    x = torch.randn(2, 5, D)
    bias = build_causal_bias(5, 0, x.device) if masked else None
    expected, _ = attend(attention, x, bias)
    monkeypatch.setattr(MultiHeadAttention, "fused_on", ("cpu",))
    fused, weights = attend(attention, x, bias)
    assert weights is None
    torch.testing.assert_close(fused, expected)
    _, weights = attend(attention, x, bias, weights=True)
    assert weights is not None
