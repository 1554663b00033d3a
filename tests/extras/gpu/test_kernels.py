"""GPU kernels compute what the same operations of torch compute.

On a machine without a GPU, Triton's interpreter runs the kernels, if Triton is installed.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.models.layers import draw_bytes
from mtkit.models.layout import Packed
from mtkit.training.batch import Batch, pack_batch

kernels = pytest.importorskip("mtkit.extras.gpu.kernels")
HAS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
SENTENCES = 60 if HAS_GPU else 8
"""Pairs of a batch; the interpreter takes seconds for many."""
TOKENS = 1000 if HAS_GPU else 40
if not HAS_GPU:
    kernels.PARTIAL_SUMS = 7

TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
DTYPES = list(TOLERANCE) if HAS_GPU else [torch.float32]
"""The interpreter is not exact for 16-bit numbers, which NumPy does not multiply."""
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype).requires_grad_()


def draw_batch(seed: int, min_width: int = 64, vocab: int = 50) -> Batch:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 40, (2, SENTENCES))
    source, target = ((rng.integers(4, vocab, it.sum()), it) for it in lengths)
    return pack_batch(source, target, min_width).to(DEVICE)


def assert_close(ours: list[Tensor], theirs: list[Tensor], dtype: torch.dtype) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        scale = max(1.0, other.abs().max().item())
        assert (mine.float() - other.float()).abs().max().item() <= TOLERANCE[dtype] * scale


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("norm_kind", ["post", "pre"])
@pytest.mark.parametrize("width, threshold", [(64, 77), (96, 0), (512, 77), (1024, 0)])
def test_add_and_norm_is_dropout_sum_and_layer_norm(
    dtype: torch.dtype, norm_kind: str, width: int, threshold: int
) -> None:
    torch.manual_seed(1)
    sublayer = draw(TOKENS, width, dtype=dtype)
    # The sum of a pre-norm Transformer stays in float32, and the next sublayer reads it, too.
    x = draw(TOKENS, width, dtype=torch.float32 if norm_kind == "pre" else dtype)
    norm = nn.LayerNorm(width, device=DEVICE)
    nn.init.normal_(norm.weight)
    torch.manual_seed(2)
    kept = (draw_bytes(x).view(x.shape) >= threshold - 128).float()
    torch.manual_seed(2)
    total, normed = kernels.add_and_norm(x, sublayer, threshold, norm)
    expected_total = x.float() + sublayer.float() * kept * (256 / (256 - threshold))
    outputs, expected = [normed, total], [norm(expected_total), expected_total]
    assert [output.dtype for output in outputs] == [dtype, x.dtype]
    assert_close(outputs, expected, dtype)
    read = outputs if norm_kind == "pre" else outputs[:1]
    grads = [torch.randn_like(output) for output in read]
    leaves = [x, sublayer, *norm.parameters()]
    ours = torch.autograd.grad(read, leaves, grads)
    theirs = torch.autograd.grad(expected[: len(read)], leaves, [grad.float() for grad in grads])
    assert_close([*ours], [*theirs], dtype)


@pytest.mark.parametrize("dtype", DTYPES[-2:], ids=str)
@pytest.mark.parametrize("min_width, depth", [(64, 16), (128, 32), (80, 64), (128, 64), (64, 128)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_in_place_is_attention_of_rows(
    dtype: torch.dtype, min_width: int, depth: int, is_causal: bool
) -> None:
    torch.manual_seed(1)
    batch, heads = draw_batch(1, min_width), 2
    queries = batch.target_layout
    keys = queries if is_causal else batch.source_layout
    query = draw(len(queries.place), heads, 1, depth, dtype=dtype)
    both = draw(len(keys.place), 2 * heads * depth, dtype=dtype)
    key, value = (it.unflatten(1, (heads, 1, depth)) for it in both.chunk(2, dim=1))
    out = kernels.attend_rows(query, key, value, queries, keys, is_causal=is_causal)

    def rows(layout: Packed, x: Tensor) -> Tensor:
        x = layout.pad(x.float().flatten(1))
        return x.reshape(*x.shape[:2], heads, depth).transpose(1, 2)

    mask = queries.causal_bias() if is_causal else queries.bias_for(keys)
    assert isinstance(mask, Tensor)
    attended = F.scaled_dot_product_attention(
        rows(queries, query), rows(keys, key), rows(keys, value), mask
    )
    expected = queries.unpad(attended.transpose(1, 2).flatten(2)).view(out.shape)
    real = (batch.target_output != 0).view(-1, 1, 1, 1)
    grad = torch.randn_like(out) * real
    ours = torch.autograd.grad(out, [query, both], grad)
    theirs = torch.autograd.grad(expected, [query, both], grad.float())
    assert_close([out * real, *ours], [expected * real, *theirs], dtype)
    assert not out[~real.flatten()].any()


@each_dtype
@pytest.mark.parametrize("vocab", [37, 8000, 32_000, 65_536])
def test_softmax_minus_targets_is_the_gradient_of_cross_entropy(
    dtype: torch.dtype, vocab: int
) -> None:
    torch.manual_seed(1)
    logits = draw(TOKENS, vocab, dtype=dtype)
    gold = torch.randint(vocab, (TOKENS, 1), device=DEVICE)
    gradient = logits.detach().clone()
    terms = kernels.subtract_targets(gradient, gold, 0.1)
    exact = logits.float()
    log_sum, of_gold = exact.logsumexp(1), exact.gather(1, gold)[:, 0]
    (expected,) = torch.autograd.grad((log_sum - 0.9 * of_gold).sum(), logits)
    assert_close([gradient], [expected], dtype)
    assert_close([terms], [torch.stack([log_sum, of_gold], dim=1)], torch.float32)
