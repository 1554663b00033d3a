"""How fast this machine is: a run on a sample of the corpus, in a folder that is thrown away.

Everything is what `mtkit run` does: its tokenizer, its batches, its updates, its validation.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.build import Batches, build_batches, open_batches
from mtkit.batching.plan import plan_epoch
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.decoding.engine import Key, Request, Sentence
from mtkit.decoding.pytorch import PyTorchEngine
from mtkit.errors import MtkitError
from mtkit.report import quietly
from mtkit.study.init.choice import LONGEST_EVER
from mtkit.study.init.facts import Lengths, Rates
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train import VocabularyTooLarge, train_tokenizer
from mtkit.training.processes import ALONE
from mtkit.training.setup import fresh_state

TRAINING_SECONDS = 20.0
"""A machine is seldom as fast for five seconds as it is for minutes."""
SENTENCES = 200
"""Number of sentences that are translated."""
LONG_SHARE = 0.99
"""The part of the pairs that is no longer than `Lengths.longest`."""


@dataclass(frozen=True)
class Trial:
    """What a run on the sample was like."""

    lengths: Lengths
    rates: Rates
    vocabulary: int
    """Number of subwords, of either side: what was asked for, or as many as the text has."""
    parameters: int


def measure(sample: Sequence[tuple[str, str]], settings: Mapping[str, Any]) -> Trial:
    """A run of these settings on the sample. UserError where no tokenizer can be trained on it."""
    with _sampled_run(sample, settings) as first, quietly():
        began = time.perf_counter()
        config = with_tokenizer(first)
        line = time.perf_counter() - began
        run = Path(config.run)
        tokenizer = Tokenizer.load(run / "tokenizer")
        longest = _longest(tokenizer, sample)
        config = _with_room(config, longest)
        began = time.perf_counter()
        build_batches(config)
        pair = time.perf_counter() - began
        data = open_batches(run / "batches")
        speed = _training_speed(config)
        lengths = _lengths(data.train.lengths, speed["max_tokens"], longest)
        sentence = _sentence_seconds(config, tokenizer, data)
    tokens, on_gpu = speed["tokens_per_second"]["median"], speed["device"] == "cuda"
    pairs = len(sample)
    rates = Rates(tokens, sentence, line / pairs, pair / pairs, on_gpu).rounded()
    return Trial(lengths, rates, config.tokenizer.vocab_size, speed["parameters"])


@contextmanager
def _sampled_run(
    sample: Sequence[tuple[str, str]], settings: Mapping[str, Any]
) -> Iterator[Config]:
    """A config whose corpus is the sample, and whose run is gone in the end."""
    with TemporaryDirectory(prefix="mtkit-init-") as name:
        folder = Path(name)
        data: dict[str, dict[str, str]] = {}
        for part, pairs in ("train", sample), ("valid", sample[:SENTENCES]):
            sides = {side: str(folder / f"{part}.{side}") for side in ("source", "target")}
            for index, path in enumerate(sides.values()):
                with Path(path).open("w", encoding="utf-8", newline="\n") as file:
                    file.writelines(f"{pair[index]}\n" for pair in pairs)
            data[part] = sides
        yield Config.model_validate({"run": str(folder / "run"), "data": data, **settings})


def with_tokenizer(config: Config) -> Config:
    """Trains the tokenizer, with a smaller vocabulary where the text is too little for it."""
    try:
        train_tokenizer(config)
    except VocabularyTooLarge as error:  # of one side: the other may want a still smaller one
        fitting = config.tokenizer.model_copy(update={"vocab_size": error.largest})
        return with_tokenizer(config.model_copy(update={"tokenizer": fitting}))
    return config


def _longest(tokenizer: Tokenizer, sample: Sequence[tuple[str, str]]) -> int:
    """Number of subwords that neither side of LONG_SHARE of the pairs exceeds."""
    sources = tokenizer.encode_source([source for source, _ in sample])
    targets = tokenizer.encode_target([target for _, target in sample])
    longer = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
    return int(np.quantile(longer, LONG_SHARE)) + 1


def _with_room(config: Config, longest: int) -> Config:
    """With batches for pairs so long, as far as any are made for."""
    batching = config.batching
    length = max(batching.max_length, min(longest, LONGEST_EVER))
    tokens = max(int(batching.max_tokens), 2 * length)
    room = batching.model_copy(update={"max_length": length, "max_tokens": tokens})
    return config.model_copy(update={"batching": room})


def _lengths(stored: NDArray[np.integer[Any]], max_tokens: int, longest: int) -> Lengths:
    """Of pairs as they are stored, (n, 2), without the end of a sentence."""
    plan = plan_epoch(stored, max_tokens=max_tokens, seed=0, epoch=0)
    source, target = (stored.mean(axis=0, dtype=np.float64) + 1).tolist()
    return Lengths(source, target, max_tokens * len(plan) / len(stored), longest)


def _training_speed(config: Config) -> dict[str, Any]:
    """What `mtkit bench train` says of the run, on the ranks that training would start.

    In a process of its own, as those that it starts write to the same stdout. Raises MtkitError
    with its last line where it fails.
    """
    settings = Path(config.run).with_name("trial.yaml")
    settings.write_text(dump_config(config), encoding="utf-8")
    command = [sys.executable, "-P", "-m", "mtkit", "bench", "train", "-c", str(settings), "--json"]
    command += ["--seconds", f"{TRAINING_SECONDS:g}", "--quiet"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or ["measuring failed"]
        raise MtkitError(f"measuring the speed of training: {said[-1]}")
    speed: dict[str, Any] = json.loads(ended.stdout)
    return speed


def _sentence_seconds(config: Config, tokenizer: Tokenizer, data: Batches) -> float:
    """To translate a sentence as validation does, by a model that knows when to end.

    All of them end after as many subwords as the root of the mean square of what the targets have:
    a long one takes more than its share, as its batch goes on for it.
    """
    most = config.decoding.max_length
    targets = [min(len(ids) + 1, most) for ids in tokenizer.encode_target(data.valid_target)]
    longest = round(np.sqrt(np.mean(np.square(targets))))
    request = Request(config.decoding.model_copy(update={"beam": 1, "max_length": longest}))
    engine = PyTorchEngine(fresh_state(config, tokenizer, ALONE).model.eval())
    sources = tokenizer.encode_source(data.valid_source)
    sentences: dict[Key, Sentence] = {}
    for line, ids in enumerate(sources):
        sentences[line, 0] = Sentence([*ids[:most], EOS])
    engine.submit(dict(islice(sentences.items(), 1)), request).wait()
    began = time.perf_counter()
    engine.submit(sentences, request).wait()
    return (time.perf_counter() - began) / len(sentences)
