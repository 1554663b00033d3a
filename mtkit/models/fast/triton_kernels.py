"""The kernels that the module `kernels` calls, in Triton (Tillet et al. 2019).

A program computes one block of a result. Sums are in float32, whatever the type of the tensors.
Memory offsets have 64 bits, because a large GPU can hold tensors for which 32 bits are too few.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _residual_sum(x, sublayer, random, at, inside, lowest, scale, has_dropout: tl.constexpr):
    """Return the sum of one token, and by what its sublayer's elements were multiplied."""
    factor = inside.to(tl.float32)
    if has_dropout:
        byte = tl.load(random + at, inside, other=0).to(tl.int32)
        factor = tl.where(byte >= lowest, scale, 0.0)
    value = tl.load(sublayer + at, inside, other=0.0).to(tl.float32)
    return tl.load(x + at, inside, other=0.0).to(tl.float32) + value * factor, factor


@triton.jit
def add_norm_forward(
    x,
    sublayer,
    random,
    weight,
    bias,
    out,
    moments,
    eps,
    lowest,
    scale,
    width,
    has_dropout: tl.constexpr,
    block: tl.constexpr,
):
    """Compute LayerNorm(x + dropout(sublayer)), one program for each token."""
    token, column = tl.program_id(0).to(tl.int64), tl.arange(0, block)
    inside = column < width
    at = token * width + column
    total, _ = _residual_sum(x, sublayer, random, at, inside, lowest, scale, has_dropout)
    mean = tl.sum(total, 0) / width
    centred = tl.where(inside, total - mean, 0.0)
    inverse = 1 / tl.sqrt(tl.sum(centred * centred, 0) / width + eps)
    gain = tl.load(weight + column, inside, other=0.0).to(tl.float32)
    offset = tl.load(bias + column, inside, other=0.0).to(tl.float32)
    tl.store(out + at, (centred * inverse * gain + offset).to(out.dtype.element_ty), inside)
    tl.store(moments + token, mean)
    tl.store(moments + tl.num_programs(0) + token, inverse)


@triton.jit
def add_norm_backward(
    grad,
    x,
    sublayer,
    random,
    weight,
    moments,
    grad_x,
    grad_sublayer,
    sums,
    tokens,
    programs,
    lowest,
    scale,
    width,
    has_dropout: tl.constexpr,
    block: tl.constexpr,
):
    """Compute its gradients; a program takes every `programs`-th token, and sums up over these."""
    first, column = tl.program_id(0).to(tl.int64), tl.arange(0, block)
    inside = column < width
    gain = tl.load(weight + column, inside, other=0.0).to(tl.float32)
    grad_weight = tl.zeros([block], tl.float32)
    grad_bias = tl.zeros([block], tl.float32)
    for token in range(first, tokens, programs):
        at = token * width + column
        total, factor = _residual_sum(x, sublayer, random, at, inside, lowest, scale, has_dropout)
        mean, inverse = tl.load(moments + token), tl.load(moments + tokens + token)
        normal = tl.where(inside, (total - mean) * inverse, 0.0)
        of_out = tl.load(grad + at, inside, other=0.0).to(tl.float32)
        grad_weight += of_out * normal
        grad_bias += of_out
        scaled = of_out * gain
        along = tl.sum(scaled * normal, 0) / width
        of_total = inverse * (scaled - tl.sum(scaled, 0) / width - normal * along)
        tl.store(grad_x + at, of_total.to(grad_x.dtype.element_ty), inside)
        of_sublayer = (of_total * factor).to(grad_sublayer.dtype.element_ty)
        tl.store(grad_sublayer + at, of_sublayer, inside)
    tl.store(sums + first * width + column, grad_weight, inside)
    tl.store(sums + (programs + first) * width + column, grad_bias, inside)


@triton.jit
def _load_places(tokens, sentences, width, block: tl.constexpr):
    """Return the tokens of a row, and their sentences; 0 for padding."""
    place = tl.arange(0, block)
    at, inside = tl.program_id(0) * width + place, place < width
    return tl.load(tokens + at, inside, other=0), tl.load(sentences + at, inside, other=0)


@triton.jit
def _locate(token, stride, depth: tl.constexpr):
    """Return where the vectors of a head lie, in a tensor with this stride between tokens."""
    return token[:, None] * stride + tl.program_id(1) * depth + tl.arange(0, depth)[None, :]


@triton.jit
def _weigh(q, k, query_sentence, key_sentence, scale, is_causal, block: tl.constexpr):
    """Return the attention weights of a row; 0 for keys that a query does not see."""
    place = tl.arange(0, block)
    visible = (query_sentence[:, None] == key_sentence[None, :]) & (query_sentence > 0)[:, None]
    visible &= is_causal * place[None, :] <= place[:, None]
    scores = tl.where(visible, tl.dot(q, tl.trans(k), input_precision="ieee") * scale, -1e9)
    weights = tl.where(visible, tl.exp(scores - tl.max(scores, 1)[:, None]), 0.0)
    return weights / tl.maximum(tl.sum(weights, 1), 1e-20)[:, None]


@triton.jit(do_not_specialize=["is_causal"])
def attention_forward(
    query,
    key,
    value,
    out,
    query_tokens,
    query_sentences,
    key_tokens,
    key_sentences,
    query_stride,
    key_stride,
    value_stride,
    width,
    scale,
    is_causal,
    block: tl.constexpr,
    depth: tl.constexpr,
):
    """Compute attention within sentences, one program for each row and head."""
    query_token, query_sentence = _load_places(query_tokens, query_sentences, width, block)
    key_token, key_sentence = _load_places(key_tokens, key_sentences, width, block)
    is_query, is_key = (query_sentence > 0)[:, None], (key_sentence > 0)[:, None]
    q = tl.load(query + _locate(query_token, query_stride, depth), is_query, other=0.0)
    k = tl.load(key + _locate(key_token, key_stride, depth), is_key, other=0.0)
    v = tl.load(value + _locate(key_token, value_stride, depth), is_key, other=0.0)
    weights = _weigh(q, k, query_sentence, key_sentence, scale, is_causal, block)
    attended = tl.dot(weights.to(v.dtype), v, input_precision="ieee").to(v.dtype)
    tl.store(out + _locate(query_token, depth * tl.num_programs(1), depth), attended, is_query)


@triton.jit(do_not_specialize=["is_causal"])
def attention_backward(
    query,
    key,
    value,
    grad,
    grad_query,
    grad_key,
    grad_value,
    query_tokens,
    query_sentences,
    key_tokens,
    key_sentences,
    query_stride,
    key_stride,
    value_stride,
    width,
    scale,
    is_causal,
    block: tl.constexpr,
    depth: tl.constexpr,
):
    """Compute its gradients, from attention weights that are computed once more."""
    query_token, query_sentence = _load_places(query_tokens, query_sentences, width, block)
    key_token, key_sentence = _load_places(key_tokens, key_sentences, width, block)
    is_query, is_key = (query_sentence > 0)[:, None], (key_sentence > 0)[:, None]
    to_query = _locate(query_token, query_stride, depth)
    to_key = _locate(key_token, key_stride, depth)
    to_value = _locate(key_token, value_stride, depth)
    to_grad = _locate(query_token, depth * tl.num_programs(1), depth)
    q = tl.load(query + to_query, is_query, other=0.0)
    k = tl.load(key + to_key, is_key, other=0.0)
    v = tl.load(value + to_value, is_key, other=0.0)
    g = tl.load(grad + to_grad, is_query, other=0.0)
    weights = _weigh(q, k, query_sentence, key_sentence, scale, is_causal, block)
    of_value = tl.dot(tl.trans(weights.to(g.dtype)), g, input_precision="ieee")
    tl.store(grad_value + to_value, of_value.to(v.dtype), is_key)
    of_weights = tl.dot(g, tl.trans(v), input_precision="ieee")
    of_scores = weights * (of_weights - tl.sum(weights * of_weights, 1)[:, None]) * scale
    of_scores = of_scores.to(q.dtype)
    of_query = tl.dot(of_scores, k, input_precision="ieee")
    tl.store(grad_query + to_query, of_query.to(q.dtype), is_query)
    of_key = tl.dot(tl.trans(of_scores), q, input_precision="ieee")
    tl.store(grad_key + to_key, of_key.to(k.dtype), is_key)


@triton.jit
def softmax_minus_targets(logits, gold, terms, share, width, block: tl.constexpr):
    """Turn logits into softmax - share · onehot(gold), one program for each row."""
    row, column = tl.program_id(0), tl.arange(0, block)
    at, inside = logits + row.to(tl.int64) * width + column, column < width
    values = tl.load(at, inside, other=float("-inf")).to(tl.float32)
    top = tl.max(values, 0)
    exponentials = tl.exp(values - top)
    total = tl.sum(exponentials, 0)
    is_gold = column == tl.load(gold + row)
    tl.store(terms + 2 * row, top + tl.log(total))
    tl.store(terms + 2 * row + 1, tl.sum(tl.where(is_gold, values, 0.0), 0))
    result = exponentials / total - tl.where(is_gold, share, 0.0)
    tl.store(at, result.to(logits.dtype.element_ty), inside)
