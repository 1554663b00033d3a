"""`mtkit bench train`: how fast a config or a model size trains on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

import torch
from torch.utils.benchmark import Timer

from mtkit.artifacts.manifest import open_artifact
from mtkit.batching.build import open_batches
from mtkit.batching.plan import padding, plan_epoch
from mtkit.config.settings import Config
from mtkit.config.yaml import load_config
from mtkit.errors import UserError
from mtkit.machine import peak_bytes
from mtkit.models.device import TORCH_DTYPES, pick_device
from mtkit.progress import progress
from mtkit.report import show
from mtkit.study.bench.machine import Record, count_operations, describe_machine, machine_line
from mtkit.study.bench.sample import ModelSize, draw_batches, draw_tokenizer, load_size
from mtkit.study.bench.speed import TrainingSample, timed_steps, window_rates
from mtkit.terms import Batch
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.data import load_batch
from mtkit.training.process_group import ProcessGroup, connect_processes
from mtkit.training.processes import count_processes, start_processes
from mtkit.training.state import TrainState

MATRIX_WIDTH = {"cpu": 1024}
"""Width of the square matrices that measure the arithmetic limit, by device; else 8,192."""


@contextmanager
def open_training_sample(
    config_file: Path | None, size: ModelSize, overrides: Sequence[str]
) -> Iterator[TrainingSample]:
    """Open a config and the batches of its run, or draw batches for a model size.

    Raises:
        UserError: the config or an override is faulty, or the run has no batches.
    """
    if config_file is not None:
        config = _without_origin(load_config(config_file, overrides))
        run = Path(config.run)
        tokenizer = Tokenizer.load(open_artifact(run / "tokenizer", "tokenizer").path)
        yield TrainingSample(config.run, config, open_batches(run / "batches"), tokenizer)
        return
    config = _without_origin(load_size(size, overrides))
    if config.training.subword_sampling is not None:
        raise UserError("training.subword_sampling: needs text: name a run with -c")
    vocab = config.tokenizer.vocab_size
    with TemporaryDirectory(prefix="mtkit-bench-") as folder:
        data = draw_batches(Path(folder), vocab, config.seed)
        name = f"{size}, sentences as long as Multi30k's"
        yield TrainingSample(name, config, data, draw_tokenizer(vocab))


def _without_origin(config: Config) -> Config:
    """Return the config with random initial weights: their values do not change the speed."""
    training = config.training.model_copy(update={"init_from": None})
    return config.model_copy(update={"training": training})


def bench_train(
    config_file: Path | None,
    size: ModelSize,
    overrides: Sequence[str],
    seconds: float,
    as_json: bool,
) -> None:
    """Train for about `seconds` seconds and write a report; nothing is kept.

    Starts as many processes as `mtkit train` would.
    """
    with open_training_sample(config_file, size, overrides) as sample:
        training = sample.config.training
        processes = count_processes(sample.config, sample.tokenizer)
        if processes > 1:
            arguments = config_file, size, overrides, seconds, as_json
            start_processes(bench_train, processes, *arguments)
            return
        with connect_processes(pick_device(training.device), training.rank_timeout) as group:
            record = _measure(sample, seconds, group)
            if group.is_main:
                show(record, _text, as_json=as_json)


def _measure(sample: TrainingSample, seconds: float, group: ProcessGroup) -> Record:
    state, config = sample.new_state(group), sample.config
    device, lengths = state.model.device, sample.data.train.lengths
    steps = []
    with progress("training", unit="steps") as shown:
        for step in timed_steps(sample, state, seconds, group):
            steps.append(step)
            shown.advance()
    rates, total = window_rates(steps), sum(step.seconds for step in steps)
    peak = {"resident": sum(group.gather(peak_bytes())) >> 20}
    if device.type == "cuda":
        peak["gpu"] = torch.cuda.max_memory_allocated(device) >> 20
    plan = plan_epoch(lengths, max_tokens=state.max_tokens, seed=config.seed, epoch=0)
    record = {
        "workload": sample.name,
        "model": config.model.name,
        "parameters": sum(parameter.numel() for parameter in state.model.parameters()),
        "precision": state.precision,
        "max_tokens": state.max_tokens,
        "processes": group.size,
        "tokens_per_second": {of.__name__: round(of(rates), 1) for of in (median, min, max)},
        "windows": len(rates),
        "steps": len(steps),
        "step_ms": round(median(step.seconds for step in steps) * 1e3, 2),
        "tokens_per_step": round(mean(step.tokens for step in steps), 1),
        "waiting_for_data": round(sum(step.waiting_seconds for step in steps) / total, 4),
        "padding": round(padding(lengths, plan), 4),
        "peak_mib": peak,
    }
    batch = load_batch(sample.data.train, plan[len(plan) // 2]).to(device)
    return record | describe_machine(device) | _utilization(state, batch, median(rates), group)


def _utilization(
    state: TrainState, batch: Batch, tokens_per_second: float, group: ProcessGroup
) -> Record:
    """Return the share of the arithmetic limit that training reaches, counted on one batch.

    It is the model FLOPs utilization of Chowdhery et al. 2022 (PaLM), appendix B. The limit is
    measured: the operations per second of a product of two large square matrices.
    """
    device = state.model.device

    def differentiate() -> None:
        with state.autocast():
            loss = state.objective(batch.source, batch.target_input, batch.target_output)
        loss.smoothed.backward()

    per_token = count_operations(differentiate) / batch.target_tokens
    width, dtype = MATRIX_WIDTH.get(device.type, 8192), TORCH_DTYPES[state.precision]
    matrix = torch.randn(width, width, dtype=dtype, device=device)
    scope = {"a": matrix, "out": matrix @ matrix}
    threads = torch.get_num_threads()
    timer = Timer("torch.matmul(a, a, out=out)", globals=scope, num_threads=threads)
    seconds = timer.blocked_autorange(min_run_time=0.2).median
    limit = sum(group.gather(2 * width**3 / seconds))
    return {
        "gflop_per_second": round(per_token * tokens_per_second / 1e9, 1),
        "limit_gflop_per_second": round(limit / 1e9, 1),
        "share_of_limit": round(per_token * tokens_per_second / limit, 4),
    }


TEXT = """\
{workload}: {model}, {parameters:,} parameters
{precision}, {processes} x {machine}

target tokens/s   {rate[median]:,.0f}  ({rate[min]:,.0f} to {rate[max]:,.0f} in {windows} windows)
arithmetic        {gflop_per_second:,.0f} GFLOP/s, {share_of_limit:.1%} of the limit
step              {step_ms:,.1f} ms  ({steps:,} steps, {tokens_per_step:,.0f} target tokens each)
waiting for data  {waiting_for_data:.2%}
padding           {padding:.2%}
peak memory       {peak}"""


def _text(record: Record) -> Iterator[str]:
    peak = ", ".join(f"{mib:,} MiB {place}" for place, mib in record["peak_mib"].items())
    rate, machine = record["tokens_per_second"], machine_line(record)
    yield TEXT.format(**record, rate=rate, machine=machine, peak=peak)
