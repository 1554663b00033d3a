"""The input of peer_hf.py: a Marian as large as a model of mtkit, and mtkit's batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch.nn.utils.rnn import pad_sequence

from mtkit.batching.build import open_batches
from mtkit.batching.plan import plan_epoch
from mtkit.config.settings import Config
from mtkit.symbols import BOS, EOS, PAD

MAX_BATCHES = 200
"""Largest number of batches that are written; peer_hf.py repeats them."""


def marian_settings(config: Config) -> dict[str, Any]:
    """Return the arguments of a MarianConfig for the Transformer of this config."""
    model, vocab = config.model.model_dump(), config.tokenizer.vocab_size
    sizes = {"layers": model["layers"], "ffn_dim": model["ffn"], "attention_heads": model["heads"]}
    marian = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in sizes.items()}
    marian |= {"d_model": model["d_model"], "dropout": model["dropout"]}
    return marian | dict.fromkeys(("vocab_size", "decoder_vocab_size"), vocab)


def write_batches(config: Config, path: Path) -> None:
    """Write the pairs of the first batches of the config's run, padded to rectangles."""
    store, max_tokens = open_batches(Path(config.run) / "batches").train, config.batching.max_tokens
    assert isinstance(max_tokens, int)
    plan = plan_epoch(store.lengths, max_tokens=max_tokens, seed=config.seed, epoch=0)
    tensors: dict[str, torch.Tensor] = {}
    for index, rows in enumerate(plan[:MAX_BATCHES]):
        sentences = []
        for is_target in (False, True):
            ids, lengths = store.side(rows, target=is_target)
            sentences.append(np.split(ids, lengths.cumsum()[:-1]))
        for name, side, start, end in (
            ("source", 0, [], [EOS]),
            ("target_input", 1, [BOS], []),
            ("target_output", 1, [], [EOS]),
        ):
            lines = [torch.tensor([*start, *line.tolist(), *end]) for line in sentences[side]]
            padded = pad_sequence(lines, batch_first=True, padding_value=PAD)
            tensors[f"{index}.{name}"] = padded
    safetensors.torch.save_file(tensors, path)
