"""What is measured: a model and batches, of a config and its run, or of a size and drawn.

A size is a config. What is drawn for it is as much work as Multi30k and a trained model: random
weights, and sentences of subwords that are words each.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from mtkit.artifacts.manifest import create, open_artifact
from mtkit.artifacts.runs import WEIGHTS
from mtkit.batching.build import VALID_SOURCE, VALID_TARGET, Batches, open_batches
from mtkit.batching.plan import Rows, plan_epoch
from mtkit.batching.store import Lengths, Tokens, store_writer, token_dtype
from mtkit.config.settings import Config, TokenizerSettings
from mtkit.config.yaml import load_config
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import save_model_config
from mtkit.models.weights import get_weights, save_weights
from mtkit.prefetch import prefetch
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import JOINT, Tokenizer
from mtkit.tokenizer.train import train_model
from mtkit.training.data import Segmentation, Stream
from mtkit.training.memory import largest_batch
from mtkit.training.processes import ALONE, Ranks
from mtkit.training.setup import card_of, fresh_state
from mtkit.training.state import TrainState
from mtkit.training.step import train_step

Size = Literal["tiny", "base"]
PAIRS = 29_000
# Subwords of Multi30k's English and German under a joint BPE vocabulary of 8000: the logarithms of
# the two lengths of a pair are normal to within a word, up to the 99th percentile.
MEAN_LOG = (2.611, 2.636)
DEVIATION_LOG = (0.318, 0.357)
CORRELATION = 0.857
LONGEST_DRAWN = 64
"""Subwords of a sentence to train on, at most."""
SENTENCES = 1000
TRANSLATED_LENGTH = 25
"""Subwords of every translation, and of a sentence to translate at most."""
LEARNING_RATE = 1e-4
WARM_UPDATES = 3
"""Number before anything counts: kernels are chosen, memory is claimed, batches come ahead."""


@dataclass(frozen=True)
class Timed:
    """One update: its real target tokens, its seconds, and those of them spent waiting for data.

    Its seconds are those since the update before: a loop has more to do than to learn.
    """

    tokens: int
    seconds: float
    waited: float


@dataclass(frozen=True)
class Workload:
    """Everything that a run is made from but its state."""

    name: str
    config: Config
    data: Batches
    tokenizer: Tokenizer
    ranks: Ranks = ALONE

    def fresh_state(self) -> TrainState:
        """What training starts from, on the device and in the precision that it would choose."""
        accumulate = self.config.training.accumulate
        state = fresh_state(self.config, self.tokenizer, self.ranks)
        if not state.max_tokens:
            state.max_tokens = largest_batch(state, self.data, accumulate, self.ranks)
        return state

    def first_epoch(self, max_tokens: int) -> list[Rows]:
        """The rows of each batch."""
        lengths, seed, weights = self.data.train.lengths, self.config.seed, self.data.weights
        return plan_epoch(lengths, max_tokens=max_tokens, seed=seed, epoch=0, weights=weights)

    def updates(self, state: TrainState) -> Generator[Timed]:
        """Trains without end, from the first batch on; what comes after some updates is told."""
        config, training = self.config, self.config.training
        cut = Segmentation.of(config, self.tokenizer)
        ranks, clip_norm = self.ranks, training.clip_norm
        stream = Stream(config, self.data, cut, state.max_tokens, ranks)
        learn = partial(train_step, state, seed=config.seed, clip_norm=clip_norm, ranks=ranks)
        updates = prefetch(stream.updates(state.position))
        last = time.perf_counter()
        for number in count():
            began = time.perf_counter()
            update = next(updates)
            ready = time.perf_counter()
            batches = [batch.to(state.model.device) for batch in update.batches]
            report = learn(batches, LEARNING_RATE)
            before, last = last, time.perf_counter()
            if number >= WARM_UPDATES:
                yield Timed(report.tokens, last - before, ready - began)


@contextmanager
def open_workload(
    config_file: Path | None, size: Size | None, overrides: Sequence[str]
) -> Iterator[Workload]:
    """That of a config and the batches of its run, or that of a size (default: tiny).

    Raises UserError where both are named, for a faulty config or override, and where the run has no
    batches.
    """
    if config_file is not None:
        if size is not None:
            raise UserError(f"--size {size}: {config_file} says what to measure: leave one out")
        config = _untrained(load_config(config_file, overrides))
        run = Path(config.run)
        tokenizer = Tokenizer.load(open_artifact(run / "tokenizer", "tokenizer").path)
        yield Workload(config.run, config, open_batches(run / "batches"), tokenizer)
        return
    config = _untrained(load_size(size or "tiny", overrides))
    if config.training.subword_sampling is not None:
        raise UserError("training.subword_sampling: drawn sentences are no text: name a run by -c")
    vocab = config.tokenizer.vocab_size
    with TemporaryDirectory(prefix="mtkit-bench-") as folder:
        data = draw_batches(Path(folder), vocab, config.seed)
        name = f"{size or 'tiny'}, sentences as long as Multi30k's"
        yield Workload(name, config, data, draw_tokenizer(vocab))


def _untrained(config: Config) -> Config:
    """Without weights to start from: which ones are trained does not matter."""
    training = config.training.model_copy(update={"init_from": None})
    return config.model_copy(update={"training": training})


def load_size(size: Size, overrides: Sequence[str] = ()) -> Config:
    """The config of a size."""
    return load_config(Path(__file__).with_name(f"{size}.yaml"), overrides)


def draw_batches(folder: Path, vocab: int, seed: int, pairs: int = PAIRS) -> Batches:
    """`pairs` pairs of ids below `vocab`, written to `folder`/batches and opened from there."""
    random = np.random.Generator(np.random.PCG64(seed))
    path = folder / "batches"
    with create(path, "batches", {"weights": [1.0]}, {}) as partial:
        for name, count in (("train", pairs), ("valid", 1)):
            lengths = draw_lengths(count, random)
            tokens = draw_tokens(int(lengths.sum()), vocab, random)
            with store_writer(partial, name, vocab) as append:
                append(tokens, lengths, np.zeros(count, np.uint16))
        for name in (VALID_SOURCE, VALID_TARGET):
            (partial / name).touch()
    return open_batches(path)


def draw_lengths(pairs: int, random: np.random.Generator) -> Lengths:
    """(pairs, 2): subwords of source and target, without EOS."""
    deviation = np.array(DEVIATION_LOG)
    covariance = np.outer(deviation, deviation) * [[1, CORRELATION], [CORRELATION, 1]]
    logs = random.multivariate_normal(MEAN_LOG, covariance, pairs, method="cholesky")
    return np.rint(np.exp(logs)).clip(1, LONGEST_DRAWN).astype(np.uint16)


def draw_tokens(count: int, vocab: int, random: np.random.Generator) -> Tokens:
    """Ids whose logarithms are uniform, which is Zipf's law: the id is the rank."""
    ordinary = vocab - EOS - 1
    ranks: NDArray[np.float64] = np.floor((ordinary + 1) ** random.random(count))
    return (EOS + ranks).astype(token_dtype(vocab))


def draw_sentences(size: Size) -> list[str]:
    """Sentences as long as Multi30k's, of words that the model of `draw_model` knows."""
    config = load_size(size)
    random = np.random.Generator(np.random.PCG64(config.seed))
    lengths = draw_lengths(SENTENCES, random)[:, 0].clip(max=TRANSLATED_LENGTH)
    symbols = draw_tokens(int(lengths.sum()), config.tokenizer.vocab_size, random)
    lines = np.split(symbols, lengths.cumsum()[:-1])
    return [" ".join(f"w{symbol}" for symbol in line) for line in lines]


def draw_model(folder: Path, size: Size) -> None:
    """Writes a model folder; EOS is never among the best symbols."""
    config = load_size(size, [f"decoding.max_length={TRANSLATED_LENGTH}"])
    vocab = config.tokenizer.vocab_size
    torch.manual_seed(config.seed)
    model = EncoderDecoder(config.model, vocab, vocab)
    with torch.no_grad():
        model.output_weight[EOS] = 0.0  # its logit is the mean of all
    tokenizer = draw_tokenizer(vocab)
    with create(folder, "model", {"size": size}, {}) as partial:
        save_model_config(partial, card_of(config, tokenizer), tokenizer)
        save_weights(get_weights(model), partial / WEIGHTS)


def draw_tokenizer(vocab: int) -> Tokenizer:
    """Each of its ordinary subwords is a word: w and a number."""
    settings = TokenizerSettings(vocab_size=vocab, byte_fallback=False)
    words = (f"w{symbol}" for symbol in range(EOS + 1, vocab))
    model = train_model(words, settings.model_copy(update={"type": "word"}), JOINT)
    return Tokenizer({Path(JOINT): model})
