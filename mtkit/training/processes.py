"""Choose how many processes train on this machine."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch

from mtkit import report
from mtkit.artifacts.runs import CHECKPOINTS
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.machine import count_cores, launcher_variable, memory_limit_bytes
from mtkit.models.device import pick_device
from mtkit.models.weights import build_without_weights
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.checkpoints import recorded_processes

PROCESSES_PER_BATCH = 4
"""Most GPUs for each batch of a step; with less than a quarter of a batch, a GPU is hardly used."""
MIN_STEP_TOKENS = 512
"""Fewest tokens per step and process; with 256, a core trains half as fast as with 1,024."""
WEIGHTS_PER_TOKEN = 40_000
"""Most weights per token on a CPU; in larger models threads are as fast, and need less memory."""
PROCESS_BYTES = 1 << 29
"""Memory of a process without its model: the program, its libraries and a batch."""
MEMORY_SHARE = 0.7
"""Share of the memory for training; the rest is for validation and other programs."""
BYTES_PER_WEIGHT = 4
COPIES = 6
"""Copies of the parameters: weights, gradients (also while exchanged), two moments, a mean."""


def count_processes(config: Config, tokenizer: Tokenizer) -> int:
    """Return how many processes to start for this run; 1 if this process does the training.

    A resumed run gets as many processes as before, because another number changes rounding.

    Raises:
        UserError: more processes are requested than there are GPUs, or a variable of torchrun or
            Slurm is not a number.
    """
    training = config.training
    device = pick_device(training.device)
    devices = count_devices(device)
    if os.environ.get("WORLD_SIZE"):  # of torchrun, or of a worker
        launched = launcher_variable("WORLD_SIZE")
        if training.ranks not in ("auto", launched):
            report.warn(f"training.ranks is {training.ranks}, but torchrun started {launched}")
        return 1
    if training.ranks != "auto":
        if device.type != "cpu" and training.ranks > devices:
            raise UserError(
                f"training.ranks is {training.ranks}, but the number of {device.type} devices is "
                f"{devices}"
            )
        return training.ranks
    if launcher_variable("SLURM_NTASKS") > 1:  # Slurm starts this command several times
        return 1
    recorded = recorded_processes(Path(config.run) / CHECKPOINTS)
    if recorded:
        return min(recorded, devices)
    if device.type == "cpu":
        useful = _count_useful_cores(config, tokenizer)
    else:
        useful = _count_fed(config, config.batching.max_tokens / PROCESSES_PER_BATCH)
    return int(max(1, min(devices, useful)))


def _count_useful_cores(config: Config, tokenizer: Tokenizer) -> float:
    """Return how many processes have enough tokens per step and enough memory on a CPU."""
    model = build_without_weights(config.model, tokenizer.source_vocab, tokenizer.target_vocab)
    weights = sum(parameter.numel() for parameter in model.parameters())
    process_bytes = PROCESS_BYTES + COPIES * BYTES_PER_WEIGHT * weights
    most_in_memory = MEMORY_SHARE * memory_limit_bytes() / process_bytes
    # The sum of the gradients of a large model pays only if each process has many tokens.
    min_tokens = weights / WEIGHTS_PER_TOKEN
    return min(most_in_memory, _count_fed(config, min_tokens))


def _count_fed(config: Config, min_tokens: float) -> float:
    """Return how many processes get at least `min_tokens` tokens (and MIN_STEP_TOKENS) per step."""
    min_tokens = max(MIN_STEP_TOKENS, min_tokens)
    if config.training.accumulate != "auto":
        return config.training.accumulate * config.batching.max_tokens / min_tokens
    # With `auto` each process gets a batch of its own.
    is_enough = config.batching.max_tokens >= min_tokens
    return math.inf if is_enough else 1


def count_devices(device: torch.device) -> int:
    """Return the number of GPUs, or of cores."""
    if device.type == "cuda":
        return torch.cuda.device_count()
    if device.type == "cpu":
        return count_cores()
    return 1


def threads_per_process(count: int) -> int:
    """Return the number of threads of each of `count` processes that share the cores."""
    return max(1, count_cores() // count)
