"""The input of peer_hf.py: a Marian as large as a model of mtkit, and mtkit's batches."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import safetensors.torch

from mtkit.batching.build import open_batches
from mtkit.config.settings import Config
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.data import Position, Stream

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
    """Write the first batches of the config's run, shaped and padded as mtkit does it."""
    run, max_tokens = Path(config.run), config.batching.max_tokens
    assert isinstance(max_tokens, int)
    data, tokenizer = open_batches(run / "batches"), Tokenizer.load(run / "tokenizer")
    steps = Stream(config, data, tokenizer, max_tokens).steps(Position())
    tensors = {
        f"{index}.{name}": getattr(step.batches[0], name)
        for index, step in enumerate(islice(steps, MAX_BATCHES))
        for name in ("source", "target_input", "target_output")
    }
    safetensors.torch.save_file(tensors, path)
