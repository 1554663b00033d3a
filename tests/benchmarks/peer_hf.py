"""Trains a MarianMTModel of Hugging Face transformers in a plain torch loop, and tells its speed.

Run by train_against_peers.py, with options as JSON, in an interpreter that has torch and
transformers; mtkit is not used.
Writes {"tokens_per_second": [of each window]} to stdout.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from types import SimpleNamespace

import safetensors.torch
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel

PAD, BOS, EOS = 0, 2, 3
WINDOWS = 10


def main() -> None:
    options = SimpleNamespace(**json.loads(sys.argv[1]))
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = MarianConfig(
        **options.model,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        max_position_embeddings=512,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
    )
    model = MarianMTModel(config).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    is_reduced = options.precision != "float32"
    rates: list[float] = []
    counts_from = time.perf_counter() + options.warm_up
    ends = counts_from + options.seconds
    tokens, began = 0, float("inf")
    for source, target_input, target_output in _batches(options.batches):
        now = time.perf_counter()
        if now >= counts_from and began == float("inf"):
            tokens, began = 0, now
        if now - began >= options.seconds / WINDOWS:
            rates.append(tokens / (now - began))
            tokens, began = 0, now
        if now >= ends and rates:
            break
        source, target_input = source.to(device), target_input.to(device)
        target_output = target_output.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=is_reduced):
            logits = model(
                input_ids=source,
                attention_mask=(source != PAD).long(),
                decoder_input_ids=target_input,
                use_cache=False,
            ).logits
            loss = cross_entropy(
                logits.flatten(0, 1).float(),
                target_output.flatten(),
                ignore_index=PAD,
                label_smoothing=0.1,
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tokens += int((target_output != PAD).sum())
    print(json.dumps({"tokens_per_second": rates}))


def _batches(path: str) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield source, target input and target output of each batch, without end."""
    tensors = safetensors.torch.load_file(path)
    count = len(tensors) // 3
    for index in cycle(range(count)):
        names = ("source", "target_input", "target_output")
        source, target_input, target_output = (tensors[f"{index}.{name}"] for name in names)
        yield source, target_input, target_output


if __name__ == "__main__":
    main()
