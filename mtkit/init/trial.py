"""A trial: how fast this machine trains a planned model on a sample of the corpus."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
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
from mtkit.init.presets import MAX_SUBWORDS, Measurement, Plan, Trial
from mtkit.init.survey import write_corpora
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
    is_gpu = pick_device("auto").type == "cuda"
    return Trial(**vars(measured), preset=plan.preset, vocabulary=plan.vocabulary, is_gpu=is_gpu)


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
        "train": write_corpora(train, folder, "train"),
        "valid": write_corpora(valid, folder, "valid"),
    }
    settings = {"run": str(folder / "run"), "data": data, **as_values(sections)}
    return Config.model_validate(settings)
