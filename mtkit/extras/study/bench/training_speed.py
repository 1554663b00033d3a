"""`mtkit bench train`: how fast a config or a model size trains on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from mtkit.artifacts.manifest import open_artifact
from mtkit.batching.build import open_batches
from mtkit.batching.plan import padding, plan_epoch
from mtkit.config.yaml import load_config
from mtkit.extras.study.bench.results import TableRows, write_report
from mtkit.extras.study.bench.sample import draw_batches, draw_tokenizer, size_config
from mtkit.machine import peak_bytes
from mtkit.models.device import pick_device
from mtkit.progress import progress
from mtkit.report import plural
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.launcher import start_processes
from mtkit.training.process_group import ProcessGroup, connect_processes
from mtkit.training.processes import count_processes
from mtkit.training.setup import RunInputs
from mtkit.training.speed import timed_steps
from mtkit.training.timing import window_rates


@contextmanager
def open_training_sample(
    config_file: Path | None, size: str, overrides: Sequence[str]
) -> Iterator[tuple[str, RunInputs]]:
    """Open the batches of a config's run, or draw batches for a model size; yield a name, too.

    Raises:
        UserError: the config or an override is not valid, or the run has no batches.
    """
    if config_file is not None:
        config = load_config(config_file, overrides)
        run = Path(config.run)
        tokenizer = Tokenizer.load(open_artifact(run / "tokenizer", "tokenizer"))
        yield config.run, RunInputs(config, open_batches(run / "batches"), tokenizer, None)
        return
    config = size_config(size, overrides)
    vocab = config.tokenizer.vocab_size
    with TemporaryDirectory(prefix="mtkit-bench-") as folder:
        data = draw_batches(Path(folder), vocab, config.seed)
        name = f"{size}, sentences as long as Multi30k's"
        yield name, RunInputs(config, data, draw_tokenizer(vocab), None)


def bench_train(
    config_file: Path | None, size: str, overrides: Sequence[str], seconds: float, as_json: bool
) -> None:
    """Train for about `seconds` seconds and write a report; keep no files.

    Starts as many processes as `mtkit train` would.
    """
    with open_training_sample(config_file, size, overrides) as (name, inputs):
        processes = count_processes(inputs.config, inputs.tokenizer)
        if processes > 1:
            # Each process calls this function again, finds its rank, and measures its share.
            arguments = config_file, size, overrides, seconds, as_json
            start_processes(bench_train, processes, *arguments)
            return
        device = pick_device(inputs.config.training.device)
        with connect_processes(device) as group:
            record = _measure(inputs, seconds, group)
            if group.is_main:
                model = f"{record['model']}, {record['parameters']:,} parameters"
                task = f"{name}: {model}, {record['precision']}"
                tables = [_tabulate(record)]
                write_report(task, record, tables, device, as_json=as_json, left=2)


def _measure(inputs: RunInputs, seconds: float, group: ProcessGroup) -> dict[str, Any]:
    """Train, and return the speed and what it depends on."""
    config = inputs.config
    lengths = inputs.data.train.lengths
    plan = plan_epoch(lengths, max_tokens=config.batching.max_tokens, seed=config.seed, epoch=0)
    state = inputs.initial_state()
    steps = []
    with progress("training", unit="steps") as shown:
        for step in timed_steps(inputs, state, seconds, group):
            steps.append(step)
            shown.advance()
    rates = window_rates(steps)
    total_seconds = sum(step.seconds for step in steps)
    waiting_seconds = sum(step.waiting_seconds for step in steps)
    return {
        "model": config.model.kind,
        "parameters": sum(parameter.numel() for parameter in state.model.parameters()),
        "precision": state.progress.precision,
        "max_tokens": config.batching.max_tokens,
        "processes": group.size,
        "tokens_per_second": {
            "median": round(median(rates), 1),
            "min": round(min(rates), 1),
            "max": round(max(rates), 1),
        },
        "windows": len(rates),
        "steps": len(steps),
        "step_ms": round(median(step.seconds for step in steps) * 1e3, 2),
        "tokens_per_step": round(mean(step.tokens for step in steps), 1),
        "waiting_for_data": round(waiting_seconds / total_seconds, 4),
        "padding": round(padding(lengths, plan), 4),
        "peak_mib": peak_mib(state.model.device, group),
    }


def peak_mib(device: torch.device, group: ProcessGroup) -> dict[str, int]:
    """Return the most memory that all processes together, and this GPU, have used, in MiB."""
    peak = {"resident": sum(group.gather(peak_bytes())) >> 20}
    if device.type == "cuda":
        peak["gpu"] = torch.cuda.max_memory_allocated(device) >> 20
    return peak


def describe_peak(peak: dict[str, int]) -> str:
    """Return what `peak_mib` returns as text, such as "512 MiB resident"."""
    return ", ".join(f"{mebibytes:,} MiB {place}" for place, mebibytes in peak.items())


def _tabulate(record: dict[str, Any]) -> TableRows:
    rates = record["tokens_per_second"]
    windows = plural(record["windows"], "window")
    spread = f"{rates['min']:,.0f} to {rates['max']:,.0f} in {windows}"
    steps = plural(record["steps"], "step")
    tokens = f"{record['tokens_per_step']:,.0f} target tokens each"
    return [
        ["processes", f"{record['processes']:,}"],
        ["target tokens/s", f"{rates['median']:,.0f}  ({spread})"],
        ["step", f"{record['step_ms']:,.1f} ms  ({steps}, {tokens})"],
        ["waiting for data", f"{record['waiting_for_data']:.2%}"],
        ["padding", f"{record['padding']:.2%}"],
        ["peak memory", describe_peak(record["peak_mib"])],
    ]
