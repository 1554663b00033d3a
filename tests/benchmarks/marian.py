"""The input of peer_hf.py: a Marian as large as a model of mtkit, and batches of the same size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch.nn.utils.rnn import pad_sequence

from mtkit.batching.build import open_batches
from mtkit.batching.store import Lengths
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
    """Write pairs of the config's run as rectangles of up to `batching.max_tokens`."""
    store, max_tokens = open_batches(Path(config.run) / "batches").train, config.batching.max_tokens
    assert isinstance(max_tokens, int)
    plan = _plan_rectangles(store.lengths, max_tokens)
    order = np.random.default_rng(config.seed).permutation(len(plan))[:MAX_BATCHES]
    tensors: dict[str, torch.Tensor] = {}
    for number, index in enumerate(order):
        sentences = []
        for is_target in (False, True):
            ids, lengths = store.side(np.array(plan[index]), target=is_target)
            sentences.append([line.tolist() for line in np.split(ids, lengths.cumsum()[:-1])])
        source, target = sentences
        tensors[f"{number}.source"] = _padded([[*line, EOS] for line in source])
        tensors[f"{number}.target_input"] = _padded([[BOS, *line] for line in target])
        tensors[f"{number}.target_output"] = _padded([[*line, EOS] for line in target])
    safetensors.torch.save_file(tensors, path)


def _plan_rectangles(lengths: Lengths, max_tokens: int) -> list[list[int]]:
    """Divide pairs into batches with little padding: neighbours are of like length on both sides.

    A batch has at most `max_tokens` tokens, padding and EOS included, on either side.
    """
    longer, shorter = lengths.max(axis=1).astype(int) + 1, lengths.min(axis=1).astype(int)
    # Pairs with a longer source follow the others, from long to short; ties alternate.
    first = np.where(lengths[:, 0] > lengths[:, 1], 2 * longer.max() - longer, longer)
    second = np.where(longer % 2, shorter, -shorter)
    batches: list[list[int]] = [[]]
    longest = 0
    for row in np.lexsort((second, first)).tolist():
        longest = max(longest, int(longer[row]))
        if (len(batches[-1]) + 1) * longest > max_tokens:
            batches.append([])
            longest = int(longer[row])
        batches[-1].append(row)
    return batches


def _padded(lines: list[list[int]]) -> torch.Tensor:
    return pad_sequence(list(map(torch.tensor, lines)), batch_first=True, padding_value=PAD)
