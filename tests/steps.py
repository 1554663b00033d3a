"""Batches of a few pairs, a training step on them, and runs that are interrupted."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from architectures import VOCAB
from mtkit.config.settings import Config
from mtkit.errors import Interrupted
from mtkit.symbols import BOS, EOS, PAD
from mtkit.training.batch import Batch, pack_batch
from mtkit.training.journal import Journal
from mtkit.training.state import LogWindow, TrainState
from mtkit.training.step import train_step
from mtkit.training.train import train

Pair = tuple[list[int], list[int]]
"""Ids of source and target."""


def draw_pairs(
    lengths: Sequence[tuple[int, int]], *, seed: int = 1, vocab: int = VOCAB
) -> list[Pair]:
    """Draw pairs with so many subwords of source and target."""
    generator = torch.Generator().manual_seed(seed)

    def draw(length: int) -> list[int]:
        return torch.randint(EOS + 1, vocab, (length,), generator=generator).tolist()

    return [(draw(source), draw(target)) for source, target in lengths]


def pack(pairs: Sequence[Pair], min_width: int = 0) -> Batch:
    """Return the pairs as a batch."""
    source, target = (
        (np.array([i for ids in side for i in ids], np.int64), np.array([len(ids) for ids in side]))
        for side in zip(*pairs, strict=True)
    )
    return pack_batch(source, target, min_width)


def rectangles(pairs: Sequence[Pair]) -> list[Tensor]:
    """Return source, input and output of the target as rectangles, a sentence per row."""
    rows = (([*source, EOS], [BOS, *target], [*target, EOS]) for source, target in pairs)
    sides = (map(torch.tensor, side) for side in zip(*rows, strict=True))
    return [pad_sequence([*side], batch_first=True, padding_value=PAD) for side in sides]


def update(state: TrainState, batches: Sequence[Batch], config: Config, rate: float) -> LogWindow:
    """Make a step, and return the sums of this step alone, which are 0 if it was skipped."""
    state.progress.window = LogWindow()
    state.write_figures()
    tokens = sum(batch.target_tokens for batch in batches)
    seed, clip_norm = config.seed, config.training.clip_norm
    train_step(state, batches, tokens, rate, seed=seed, clip_norm=clip_norm)
    state.read_figures()
    return state.progress.window


def train_until(config: Config, step: int, number: int = signal.SIGINT) -> None:
    """Train a run up to a step, where it gets Ctrl-C or another signal."""
    add = Journal.add

    def add_and_interrupt(self: Journal, tokens: int) -> None:
        add(self, tokens)
        if self.state.progress.step == step:
            signal.raise_signal(number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "add", add_and_interrupt)
        with pytest.raises(Interrupted, match=r"run the same .* `mtkit finish`") as caught:
            train(config)
    assert caught.value.exit_code == 128 + number
