"""A trial: how fast this machine trains a planned model on a sample of the corpus."""

from __future__ import annotations

import operator
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch
import yaml

from mtkit.batching.build import build_batches, open_batches
from mtkit.batching.plan import plan_epoch
from mtkit.config.locate import flow
from mtkit.config.settings import Config
from mtkit.corpus.read import Pair
from mtkit.decoding.text.case import lowercase, truecase, uppercase
from mtkit.init.presets import MAX_SUBWORDS, CorpusFacts, Plan, Trial, render_config
from mtkit.models.device import pick_device
from mtkit.report import quietly
from mtkit.study.bench.training_speed import timed_steps, window_rates
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import VocabularyTooLarge, train_tokenizer
from mtkit.training.process_group import ProcessGroup
from mtkit.training.processes import count_processes, threads_per_process
from mtkit.training.setup import RunInputs

TRIAL_SECONDS = 4.0
HELD_OUT_PAIRS = 100
PROCESS_SHARE = 0.9
"""Speed of each of several training processes, relative to a single process."""


def run_trial(facts: CorpusFacts, plan: Plan, sample: Sequence[Pair]) -> Trial:
    """Train for some seconds on the sample, as planned, with a tokenizer and batches of the sample.

    The vocabulary is smaller than planned if the sample has too little text. Truecasing is tested
    on held-out pairs.

    Raises:
        UserError: no tokenizer can be trained on the sample.
    """
    count = min(HELD_OUT_PAIRS, len(sample) // 10)
    held_out, trained = sample[:count], sample[count:]
    with TemporaryDirectory(prefix="mtkit-init-") as folder, quietly():
        config = _sample_config(Path(folder), facts, plan, trained, held_out)
        start = time.perf_counter()
        try:
            tokenizer = Tokenizer.load(train_tokenizer(config))
        except VocabularyTooLarge as error:
            # The training text differs a little from the sample; its largest size may be smaller.
            smaller = replace(plan, vocabulary=error.largest * 98 // 100)
            return run_trial(facts, smaller, sample)
        data = open_batches(build_batches(config).path)
        pair_seconds = (time.perf_counter() - start) / len(trained)
        tokens = max(plan.max_tokens, int(data.train.lengths.max()) + 1)
        batching = config.batching.model_copy(update={"max_tokens": tokens})
        config = config.model_copy(update={"batching": batching})
        processes = count_processes(config, tokenizer)
        torch.set_num_threads(threads_per_process(processes))
        inputs = RunInputs(config, data, tokenizer, None)
        speed, warm_up = _measure_speed(inputs, processes)
        dotless_i = config.decoding.dotless_i in ("source", "both")
        lengths = data.train.lengths + 1  # the end of sentence
        batches = plan_epoch(data.train.lengths, max_tokens=tokens, seed=0, epoch=0)
        return Trial(
            plan.preset,
            plan.vocabulary,
            tokens_per_second=speed,
            pair_seconds=pair_seconds,
            warm_up_seconds=warm_up,
            target_tokens=float(lengths[:, 1].mean()),
            padded_tokens=tokens * len(batches) / len(lengths),
            long_tokens=int(np.quantile(lengths.max(axis=1), 0.99)),
            is_gpu=pick_device(config.training.device).type == "cuda",
            restores_case=restores_case([it.source for it in held_out], tokenizer, dotless_i),
        )


def _measure_speed(inputs: RunInputs, processes: int) -> tuple[float, float]:
    """Return the target tokens per second of training, and the seconds lost before full speed."""
    start, group = time.perf_counter(), ProcessGroup()
    group.size = processes  # take the share of one process, although no other process runs
    steps = list(timed_steps(inputs, inputs.initial_state(group), TRIAL_SECONDS, group))
    speed = median(window_rates(steps))
    lost = time.perf_counter() - start - sum(step.tokens for step in steps) / speed
    return speed * (PROCESS_SHARE if processes > 1 else 1.0), max(0.0, lost)


def restores_case(lines: Sequence[str], tokenizer: Tokenizer, dotless_i: bool) -> bool:
    """Return whether truecasing restores lines that are turned into capitals or small letters."""
    changed = [case(line, dotless_i=dotless_i) for case in (uppercase, lowercase) for line in lines]
    cased = [truecase(line, tokenizer, dotless_i=dotless_i) for line in changed]
    before, after = (sum(map(operator.eq, texts, [*lines, *lines])) for texts in (changed, cased))
    return bool(after > before)


def _sample_config(
    folder: Path, facts: CorpusFacts, plan: Plan, trained: Sequence[Pair], held_out: Sequence[Pair]
) -> Config:
    """Return the planned config with the sample as its corpus; it keeps long pairs."""
    roomy = replace(plan, max_length=MAX_SUBWORDS, max_tokens=2 * MAX_SUBWORDS)
    data = {}
    for part, pairs in ("train", trained), ("valid", held_out):
        corpus = {side: str(folder / f"{part}.{side}") for side in ("source", "target")}
        for index, name in enumerate(corpus.values()):
            lines = "".join(f"{pair[index]}\n" for pair in pairs)
            Path(name).write_text(lines, encoding="utf-8", newline="\n")
        data[part] = flow(corpus)
    text = render_config(facts, roomy, run=flow(str(folder / "run")), **data)
    return Config.model_validate(yaml.safe_load(text))
