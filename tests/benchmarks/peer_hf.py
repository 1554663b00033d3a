"""Trains a MarianMTModel of Hugging Face transformers in a plain torch loop, and tells its speed.

Run by train_against_peers.py and gpu.py, with options as JSON, in an interpreter that has torch and
transformers; mtkit is not used. On a GPU, Adam is fused and batches are copied from pinned memory.
About every second it writes a line to stdout: the last step and the target tokens since the line
before, and the seconds since the start.
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
    is_gpu = device.type == "cuda"
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=is_gpu
    )
    is_reduced = options.precision != "float32"
    began = last = time.perf_counter()
    tokens = 0
    for step, batch in enumerate(_batches(options.batches, is_gpu), 1):
        source, target_input, target_output = (ids.to(device, non_blocking=True) for ids in batch)
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
        tokens += int((batch[2] != PAD).sum())
        if time.perf_counter() - last < 1:
            continue
        if is_gpu:
            torch.cuda.synchronize()
        last = time.perf_counter()
        record = {"step": step, "tokens": tokens, "seconds": last - began}
        print(json.dumps(record), flush=True)
        tokens = 0
        if last - began > options.seconds:
            return


def _batches(path: str, is_gpu: bool) -> Iterator[list[Tensor]]:
    """Yield source, target input and target output of each batch, without end."""
    tensors = safetensors.torch.load_file(path)
    names = ("source", "target_input", "target_output")
    batches = [[tensors[f"{i}.{name}"] for name in names] for i in range(len(tensors) // 3)]
    return cycle([[ids.pin_memory() for ids in batch] for batch in batches] if is_gpu else batches)


if __name__ == "__main__":
    main()
