"""Ancestral sampling: each symbol is drawn from P(y_t | y_<t, x)^(1/temperature), truncated to the
most probable symbols where asked for (Fan et al. 2018: top k; Holtzman et al. 2020: top p).

A draw inverts the cumulative distribution at a uniform number, and these numbers are a function of
(seed, key of the sentence, which of its samples, position): a line is sampled alike in any company.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.config.decoding import DecodingSettings, SamplingSettings
from mtkit.decoding.beam import NEVER, Hypotheses, allowed_log_probs, in_order
from mtkit.decoding.contract import Key
from mtkit.models.base import TranslationModel, select
from mtkit.terms import SourceIds
from mtkit.tokenizer.symbols import BOS, EOS, PAD


@torch.inference_mode()
def sample(
    model: TranslationModel,
    source: SourceIds,
    settings: DecodingSettings,
    sampling: SamplingSettings,
    *,
    count: int,
    keys: Sequence[Key],
) -> Hypotheses:
    """`count` samples of each sentence in the order drawn; `model` must be in evaluation mode.

    Scores are those of the model as it is, with no temperature or truncation.
    """
    memory = model.encode(source, source != PAD)
    state = model.start(memory, count)
    noise = _uniform(keys, count, settings.max_length, sampling.seed).to(source.device)
    sentences = torch.arange(source.shape[0], device=source.device)  # those still sampled
    last = source.new_full((source.shape[0], count), BOS)
    drawn = Hypotheses(last.new_zeros(*last.shape, 0), last * 0, last * 0.0, last < 0)
    done = []
    for length in range(settings.max_length):
        decoded = model.decode(memory, state, last.reshape(-1, 1))
        log_probs = allowed_log_probs(model.project(decoded.hidden[:, -1]), length, settings)
        last = _draw(log_probs, noise[:, :, length].reshape(-1, 1), sampling).view(last.shape)
        drawn = _append(drawn, last, log_probs.view(*last.shape, -1))
        state = decoded.state
        ended = drawn.finished.all(dim=1)
        open_ = (~ended).nonzero().squeeze(1)
        if len(open_) < len(sentences):  # sentences with no sample left to draw leave the batch
            done.append(select((sentences, drawn), ended.nonzero().squeeze(1)))
            sentences, drawn, memory, noise, last = select(
                (sentences, drawn, memory, noise, last), open_
            )
            rows = open_.unsqueeze(1) * count + torch.arange(count, device=source.device)
            state = select(state, rows.flatten())
        if not len(open_):
            break
    samples = in_order([*done, (sentences, drawn)])
    scale = samples.lengths.clamp(min=1) ** settings.length_penalty
    return replace(samples, scores=samples.scores / scale)


def _append(
    drawn: Hypotheses, symbols: Int[Tensor, "B K"], log_probs: Float[Tensor, "B K V"]
) -> Hypotheses:
    """What has not ended grows by a symbol; what has, by padding."""
    taken = log_probs.gather(2, symbols.unsqueeze(2)).squeeze(2)
    finished = drawn.finished | (symbols == EOS)
    return Hypotheses(
        torch.cat([drawn.tokens, symbols.masked_fill(finished, PAD).unsqueeze(2)], dim=2),
        drawn.lengths + ~finished,
        drawn.scores + taken.masked_fill(drawn.finished, 0.0),
        finished,
    )


def _draw(
    log_probs: Float[Tensor, "N V"], noise: Float[Tensor, "N 1"], sampling: SamplingSettings
) -> Int[Tensor, "N 1"]:
    """The symbol at which the cumulative probability first exceeds `noise` (of the total)."""
    probabilities = _truncate(log_probs / sampling.temperature, sampling).softmax(dim=-1)
    cumulative = probabilities.cumsum(dim=-1)
    return torch.searchsorted(cumulative, noise * cumulative[:, -1:], right=True)


def _truncate(logits: Float[Tensor, "N V"], sampling: SamplingSettings) -> Float[Tensor, "N V"]:
    """-inf for symbols outside the `top_k`, and outside the fewest whose sum reaches `top_p`."""
    if sampling.top_k is not None:
        least = logits.topk(min(sampling.top_k, logits.shape[1])).values[:, -1:]
        logits = logits.masked_fill(logits < least, NEVER)
    if sampling.top_p is not None:
        ranked = logits.sort(dim=-1, descending=True).values
        before = ranked.softmax(dim=-1).cumsum(dim=-1).roll(1, dims=-1)
        before[:, 0] = 0.0
        least = ranked.masked_fill(before >= sampling.top_p, -NEVER).amin(dim=-1, keepdim=True)
        logits = logits.masked_fill(logits < least, NEVER)
    return logits


def _uniform(keys: Sequence[Key], count: int, length: int, seed: int) -> Float[Tensor, "B K T"]:
    """Numbers in [0, 1), the same for a key whatever the other keys, `count` and `length`."""
    rows = [
        [
            np.random.default_rng((seed, *key, index)).random(length, np.float32)
            for index in range(count)
        ]
        for key in keys
    ]
    return torch.from_numpy(np.array(rows))
