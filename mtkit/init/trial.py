"""A trial: how fast this machine trains a planned model on a sample of the corpus."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch

from mtkit.batching.build import Batches, build_batches, open_batches
from mtkit.batching.plan import plan_epoch
from mtkit.config.settings import Config
from mtkit.corpus.read import Pair
from mtkit.init.config_text import Sections, as_values, choose_settings
from mtkit.init.facts import CorpusFacts
from mtkit.init.presets import MAX_SUBWORDS, Plan, Trial
from mtkit.models.device import pick_device
from mtkit.report import silently
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import VocabularyTooLarge, train_tokenizer
from mtkit.training.process_group import FirstOfSeveral
from mtkit.training.processes import count_processes, threads_per_process
from mtkit.training.setup import RunInputs
from mtkit.training.speed import timed_steps
from mtkit.training.timing import window_rates

TRIAL_SECONDS = 4.0
MAX_VALIDATION_PAIRS = 100
"""Pairs of the sample for validation, which every run needs; the trial makes none."""
PROCESS_SHARE = 0.9
"""Speed of each of several training processes, relative to a single process."""


@dataclass(frozen=True)
class Measurement:
    """How fast this machine prepares and trains a config, and how long the pairs are."""

    tokens_per_second: float
    """Speed of training in target tokens."""
    warm_up_seconds: float
    """Time until training reaches its full speed."""
    pair_seconds: float
    """Time per pair to make the tokenizer, to filter and to encode."""
    target_tokens: float
    """Mean number of target tokens of a pair, with the end of sentence."""
    padded_tokens: float
    """Mean number of tokens of a batch per pair."""
    long_tokens: int
    """99% of the pairs have at most this many tokens on their longer side."""


def run_trial(facts: CorpusFacts, plan: Plan, sample: Sequence[Pair]) -> Trial:
    """Train for some seconds on the sample, as planned, with a tokenizer and batches of the sample.

    The vocabulary is smaller than planned if the sample has too little text.

    Raises:
        UserError: no tokenizer can be trained on the sample.
    """
    # The sample has long pairs, too, which the plan will leave out by its own limits.
    without_limits = replace(plan, max_length=MAX_SUBWORDS, max_tokens=2 * MAX_SUBWORDS)
    sections = choose_settings(facts, without_limits)
    try:
        measured = measure_training(sections, sample, plan.max_tokens)
    except VocabularyTooLarge as error:
        # Try again with the largest size, less 2%: the training text differs a little from the
        # sample, so it may allow fewer subwords.
        smaller = replace(plan, vocabulary=error.largest * 98 // 100)
        return run_trial(facts, smaller, sample)
    return Trial(
        preset=plan.preset,
        vocabulary=plan.vocabulary,
        tokens_per_second=measured.tokens_per_second,
        pair_seconds=measured.pair_seconds,
        warm_up_seconds=measured.warm_up_seconds,
        target_tokens=measured.target_tokens,
        padded_tokens=measured.padded_tokens,
        long_tokens=measured.long_tokens,
        is_gpu=pick_device("auto").type == "cuda",
    )


def measure_training(sections: Sections, sample: Sequence[Pair], max_tokens: int) -> Measurement:
    """Train for some seconds on the sample with the settings of `sections`.

    `max_tokens`: tokens of a batch; a batch has more if a pair is longer.

    Raises:
        UserError: no tokenizer can be trained on the sample, or it does not fit the model.
    """
    with TemporaryDirectory(prefix="mtkit-init-") as folder, silently():
        config = _write_sample(Path(folder), sections, sample)
        start = time.perf_counter()
        tokenizer = Tokenizer.load(train_tokenizer(config))
        data = open_batches(build_batches(config).path)
        preparation_seconds = time.perf_counter() - start

        longest_pair = int(data.train.lengths.max()) + 1
        max_tokens = max(max_tokens, longest_pair)
        batching = config.batching.model_copy(update={"max_tokens": max_tokens})
        config = config.model_copy(update={"batching": batching})
        processes = count_processes(config, tokenizer)
        torch.set_num_threads(threads_per_process(processes))
        inputs = RunInputs(config, data, tokenizer, origin=None)  # weights do not matter for speed
        speed, lost_seconds = _measure_speed(inputs, processes)
        lengths = data.train.lengths + 1  # the end of sentence
        return Measurement(
            tokens_per_second=speed,
            warm_up_seconds=lost_seconds,
            pair_seconds=preparation_seconds / len(lengths),
            target_tokens=float(lengths[:, 1].mean()),
            padded_tokens=_padded_tokens_per_pair(data, max_tokens),
            long_tokens=int(np.quantile(lengths.max(axis=1), 0.99)),
        )


def _padded_tokens_per_pair(data: Batches, max_tokens: int) -> float:
    """Return the tokens of an epoch per pair, if each batch counts as `max_tokens` tokens.

    A plan turns epochs into steps by this number.
    """
    batches = plan_epoch(data.train.lengths, max_tokens=max_tokens, seed=0, epoch=0)
    return max_tokens * len(batches) / len(data.train.lengths)


def _measure_speed(inputs: RunInputs, processes: int) -> tuple[float, float]:
    """Return the speed of training in target tokens per second, and the warm-up in seconds.

    Warm-up is the time beyond what the same steps take at full speed. It includes making the model
    and the first steps, which are not timed.
    """
    start = time.perf_counter()
    group = FirstOfSeveral(processes)
    steps = list(timed_steps(inputs, inputs.initial_state(), TRIAL_SECONDS, group))
    total_seconds = time.perf_counter() - start
    full_speed = median(window_rates(steps))
    seconds_at_full_speed = sum(step.tokens for step in steps) / full_speed
    warm_up_seconds = max(0.0, total_seconds - seconds_at_full_speed)
    # Only one process has run. Several slow each other down.
    speed = full_speed if processes == 1 else PROCESS_SHARE * full_speed
    return speed, warm_up_seconds


def _write_sample(folder: Path, sections: Sections, sample: Sequence[Pair]) -> Config:
    """Return a config with the settings of `sections` and the sample as its corpus."""
    # At most every tenth pair, and spread over the sample, so that each target tag keeps pairs to
    # train on.
    distance = max(10, math.ceil(len(sample) / MAX_VALIDATION_PAIRS))
    valid = sample[::distance]
    train = [pair for row, pair in enumerate(sample) if row % distance != 0]
    data = {
        "train": _write_corpora(folder, "train", train),
        "valid": _write_corpora(folder, "valid", valid),
    }
    settings = {"run": str(folder / "run"), "data": data, **as_values(sections)}
    return Config.model_validate(settings)


def _write_corpora(folder: Path, name: str, pairs: Sequence[Pair]) -> list[dict[str, str]]:
    """Write the pairs of each target tag to two files; return the corpora of the config."""
    by_tag: dict[str | None, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_tag[pair.target_tag].append(pair)
    corpora: list[dict[str, str]] = []
    for tag, tagged in by_tag.items():
        if tag is None:
            corpora.append(_write_corpus(folder, name, tagged))
        else:
            files = _write_corpus(folder, f"{name}.{tag}", tagged)
            corpora.append(files | {"target_tag": tag})
    return corpora


def _write_corpus(folder: Path, name: str, pairs: Sequence[Pair]) -> dict[str, str]:
    """Write pairs to two files; return their paths as a corpus of the config."""
    texts = {
        "source": "".join(f"{pair.source}\n" for pair in pairs),
        "target": "".join(f"{pair.target}\n" for pair in pairs),
    }
    corpus = {}
    for side, text in texts.items():
        path = folder / f"{name}.{side}"
        path.write_text(text, encoding="utf-8", newline="\n")
        corpus[side] = str(path)
    return corpus
