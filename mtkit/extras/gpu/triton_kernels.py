"""The kernels that the module `kernels` calls, in Triton (Tillet et al. 2019).

A GPU runs many programs of a kernel at the same time. Each program computes one block of the
result, and `tl.program_id` is its number. A tensor is given as a pointer to its first element:
`tl.load(tensor + offsets, mask, other=0.0)` reads the elements at these offsets, and 0.0 where the
mask is False. A block has as many elements as a power of two, as Triton requires: `block` is a
width that is rounded up, and masks hide what is beyond the width.

Sums are in float32, whatever the type of the tensors. With `input_precision="ieee"`, products of
float32 keep all digits; by default, Triton would round their factors to TF32. Offsets in hidden
states and logits have 64 bits, because a large GPU can hold tensors for which 32 bits are too few.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _dropout_factor(random, offsets, inside, lowest_kept, scale):
    """Return the factor of dropout for each element of one token; 0 beyond the width.

    `random`: a byte for each element, which is kept if its byte is at least `lowest_kept`; None: no
    dropout. `scale`: 1 / (1 - p), the factor of kept elements; `inside`: False beyond the width.
    """
    factor = inside.to(tl.float32)
    if random is not None:
        byte = tl.load(random + offsets, inside, other=0).to(tl.int32)
        factor = tl.where(byte >= lowest_kept, scale, 0.0)
    return factor


@triton.jit
def add_norm_forward(
    x,
    sublayer,
    random,
    weight,
    bias,
    total,
    normed,
    moments,
    eps,
    lowest_kept,
    scale,
    width,
    block: tl.constexpr,
):
    """Compute total = x + dropout(sublayer) and its LayerNorm, one program for each token.

    `moments`, (2, tokens), gets the mean and the inverse standard deviation of each token.
    """
    token = tl.program_id(0).to(tl.int64)
    tokens = tl.num_programs(0)
    column = tl.arange(0, block)
    inside = column < width
    offsets = token * width + column
    factor = _dropout_factor(random, offsets, inside, lowest_kept, scale)
    residual = tl.load(x + offsets, inside, other=0.0).to(tl.float32)
    added = tl.load(sublayer + offsets, inside, other=0.0).to(tl.float32)
    values = residual + added * factor
    mean = tl.sum(values, 0) / width
    centred = tl.where(inside, values - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / width
    inverse_deviation = 1 / tl.sqrt(variance + eps)
    gain = tl.load(weight + column, inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + column, inside, other=0.0).to(tl.float32)
    result = centred * inverse_deviation * gain + shift
    tl.store(total + offsets, values.to(total.dtype.element_ty), inside)
    tl.store(normed + offsets, result.to(normed.dtype.element_ty), inside)
    tl.store(moments + token, mean)
    tl.store(moments + tokens + token, inverse_deviation)


@triton.jit
def add_norm_backward(
    grad_total,
    grad_normed,
    total,
    random,
    weight,
    moments,
    grad_x,
    grad_sublayer,
    sums,
    tokens,
    programs,
    lowest_kept,
    scale,
    width,
    block: tl.constexpr,
):
    """Compute the gradients of `add_norm_forward`; a program takes every `programs`-th token.

    `grad_total` is None if only the norm has a gradient. `sums`, (2, programs, width), gets the
    gradients of weight and bias, summed over the tokens of each program.
    """
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, block)
    inside = column < width
    gain = tl.load(weight + column, inside, other=0.0).to(tl.float32)
    grad_weight = tl.zeros([block], tl.float32)
    grad_bias = tl.zeros([block], tl.float32)
    for token in range(program, tokens, programs):
        offsets = token * width + column
        values = tl.load(total + offsets, inside, other=0.0).to(tl.float32)
        mean = tl.load(moments + token)
        inverse_deviation = tl.load(moments + tokens + token)
        normalised = tl.where(inside, (values - mean) * inverse_deviation, 0.0)
        grad_out = tl.load(grad_normed + offsets, inside, other=0.0).to(tl.float32)
        grad_weight += grad_out * normalised
        grad_bias += grad_out
        # With n = normalised and g = d loss / dn:
        # d loss / dtotal = inverse_deviation · (g - mean(g) - n · mean(g · n)).
        grad_normalised = grad_out * gain
        mean_product = tl.sum(grad_normalised * normalised, 0) / width
        mean_grad = tl.sum(grad_normalised, 0) / width
        grad_sum = inverse_deviation * (grad_normalised - mean_grad - normalised * mean_product)
        if grad_total is not None:
            grad_sum += tl.load(grad_total + offsets, inside, other=0.0).to(tl.float32)
        tl.store(grad_x + offsets, grad_sum.to(grad_x.dtype.element_ty), inside)
        factor = _dropout_factor(random, offsets, inside, lowest_kept, scale)
        dropped = (grad_sum * factor).to(grad_sublayer.dtype.element_ty)
        tl.store(grad_sublayer + offsets, dropped, inside)
    tl.store(sums + program * width + column, grad_weight, inside)
    tl.store(sums + (programs + program) * width + column, grad_bias, inside)


@triton.jit
def _load_row(tokens, sentences, width, block: tl.constexpr):
    """Return the token and the sentence at each place of a row, (block,) each.

    A token is given as the index of its vector, a sentence as its number from 1. The row has the
    number of the program. The sentence is 0 for padding, also beyond the width; the token there
    must not be read.
    """
    place = tl.arange(0, block)
    inside = place < width
    offsets = tl.program_id(0) * width + place
    token = tl.load(tokens + offsets, inside, other=0)
    sentence = tl.load(sentences + offsets, inside, other=0)
    return token, sentence


@triton.jit
def _locate(token, stride, depth: tl.constexpr):
    """Return the offsets of the vectors of these tokens for one head, (block, depth).

    `stride`: elements from a token to the next. The vectors of its heads are next to each other.
    """
    head = tl.program_id(1)
    return token[:, None] * stride + head * depth + tl.arange(0, depth)[None, :]


@triton.jit
def _weigh(q, k, query_sentence, key_sentence, scale, is_causal, block: tl.constexpr):
    """Return the attention weights of a row, (queries, keys); 0 where a key is hidden."""
    place = tl.arange(0, block)
    is_same_sentence = query_sentence[:, None] == key_sentence[None, :]
    is_query = query_sentence > 0
    # If `is_causal` is 0, this is 0 <= place, which is always true.
    is_earlier = is_causal * place[None, :] <= place[:, None]
    visible = is_same_sentence & is_query[:, None] & is_earlier
    products = tl.dot(q, tl.trans(k), input_precision="ieee")
    # Finite, and no sum of 0, so that a query that sees no key gets weights of 0 rather than NaN.
    scores = tl.where(visible, products * scale, -1e9)
    largest = tl.max(scores, 1)
    exponentials = tl.exp(scores - largest[:, None])
    weights = tl.where(visible, exponentials, 0.0)
    total = tl.maximum(tl.sum(weights, 1), 1e-20)
    return weights / total[:, None]


# Triton compiles a second kernel if an integer argument is 1; `is_causal` (0 or 1) needs only one.
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
    """Compute attention within sentences, one program for each row and head.

    `query` and `out` are (M, H, 1, depth), `key` and `value` (K, H, 1, depth): the vectors of M and
    of K tokens, end to end. A stride counts the elements from a token to the next. `…_tokens` and
    `…_sentences` are (rows, width): tokens[r, i] is the index in dimension 0 of the vector at place
    i of row r, and sentences[r, i] the number of its sentence from 1, or 0 for padding. `scale`:
    1 / √depth; `is_causal`: 1 or 0; `depth`: Dh, the size of a head.
    """
    heads = tl.num_programs(1)
    out_stride = heads * depth  # `out` is contiguous
    query_token, query_sentence = _load_row(query_tokens, query_sentences, width, block)
    key_token, key_sentence = _load_row(key_tokens, key_sentences, width, block)
    is_query = (query_sentence > 0)[:, None]  # not padding
    is_key = (key_sentence > 0)[:, None]
    q = tl.load(query + _locate(query_token, query_stride, depth), is_query, other=0.0)
    k = tl.load(key + _locate(key_token, key_stride, depth), is_key, other=0.0)
    v = tl.load(value + _locate(key_token, value_stride, depth), is_key, other=0.0)
    weights = _weigh(q, k, query_sentence, key_sentence, scale, is_causal, block)
    attended = tl.dot(weights.to(v.dtype), v, input_precision="ieee").to(v.dtype)
    tl.store(out + _locate(query_token, out_stride, depth), attended, is_query)


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
    """Compute the gradients of `attention_forward`, whose weights are computed once more.

    `grad`: the gradient of its result, contiguous. `grad_query`, `grad_key` and `grad_value` have
    the strides of the query, the key and the value.
    """
    heads = tl.num_programs(1)
    grad_stride = heads * depth
    query_token, query_sentence = _load_row(query_tokens, query_sentences, width, block)
    key_token, key_sentence = _load_row(key_tokens, key_sentences, width, block)
    is_query = (query_sentence > 0)[:, None]  # not padding
    is_key = (key_sentence > 0)[:, None]
    query_offsets = _locate(query_token, query_stride, depth)
    key_offsets = _locate(key_token, key_stride, depth)
    value_offsets = _locate(key_token, value_stride, depth)
    grad_offsets = _locate(query_token, grad_stride, depth)
    q = tl.load(query + query_offsets, is_query, other=0.0)
    k = tl.load(key + key_offsets, is_key, other=0.0)
    v = tl.load(value + value_offsets, is_key, other=0.0)
    g = tl.load(grad + grad_offsets, is_query, other=0.0)
    weights = _weigh(q, k, query_sentence, key_sentence, scale, is_causal, block)
    # With weights P and scores S: dV = P^T · g, dP = g · V^T.
    of_value = tl.dot(tl.trans(weights.to(g.dtype)), g, input_precision="ieee")
    tl.store(grad_value + value_offsets, of_value.to(v.dtype), is_key)
    of_weights = tl.dot(g, tl.trans(v), input_precision="ieee")
    # Through the softmax, row by row: dS = P · (dP - Σ P · dP).
    row_sums = tl.sum(weights * of_weights, 1)
    of_scores = weights * (of_weights - row_sums[:, None]) * scale
    of_scores = of_scores.to(q.dtype)
    # S = Q · K^T, so dQ = dS · K and dK = dS^T · Q.
    of_query = tl.dot(of_scores, k, input_precision="ieee")
    tl.store(grad_query + query_offsets, of_query.to(q.dtype), is_query)
    of_key = tl.dot(tl.trans(of_scores), q, input_precision="ieee")
    tl.store(grad_key + key_offsets, of_key.to(k.dtype), is_key)


@triton.jit
def softmax_minus_targets(logits, gold, terms, gold_share, width, block: tl.constexpr):
    """Turn logits into softmax - gold_share · onehot(gold), one program for each row.

    `terms`, (rows, 2), gets log Σ exp(logits) and the gold logit of each row.
    """
    row = tl.program_id(0)
    column = tl.arange(0, block)
    addresses = logits + row.to(tl.int64) * width + column
    inside = column < width
    values = tl.load(addresses, inside, other=float("-inf")).to(tl.float32)
    largest = tl.max(values, 0)
    # Without the largest logit, no exponential overflows.
    exponentials = tl.exp(values - largest)
    total = tl.sum(exponentials, 0)
    is_gold = column == tl.load(gold + row)
    tl.store(terms + 2 * row, largest + tl.log(total))
    # An element cannot be selected by its index, so all others become 0 in a sum.
    gold_logit = tl.sum(tl.where(is_gold, values, 0.0), 0)
    tl.store(terms + 2 * row + 1, gold_logit)
    share = tl.where(is_gold, gold_share, 0.0)
    result = exponentials / total - share
    tl.store(addresses, result.to(logits.dtype.element_ty), inside)
