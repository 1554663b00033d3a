"""The memory that training takes, computed from the settings alone.

Weights, gradients and the states of the optimizer must fit. Activations and logits grow with the
batch. If they do not fit into a GPU, training halves its batches; on a CPU, where Linux grants more
memory than there is and later kills the process, they must fit, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from mtkit.batching.build import Batches
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.machine import launcher_variable, memory_limit_bytes
from mtkit.models.device import Precision, pick_device, pick_precision
from mtkit.models.weights import build_without_weights
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.loss import CHUNK_TOKENS
from mtkit.training.optimizers import build_optimizer

FLOAT32_BYTES = 4
EMBEDDING_COPIES = 4
"""Gradients of embeddings and output before they are summed; measured with 256,205 subwords."""
GPU_GIGABYTES = (16, 80)
"""Memory of usual GPUs, such as an RTX 4080 and an A100."""
KEPT_WIDTHS = {"transformer": (10, 18), "lstm": (20, 45)}
"""Numbers per token that a layer of encoder and decoder keeps, as multiples of the width.

They are kept for the backward pass; counted as autograd keeps them, in models of several sizes.
"""
FFN_WIDTHS = 2
"""The same, as multiples of `ffn`."""
ACTIVATION_BYTES = {"float32": 4.0, "bfloat16": 2.8}
"""Mean size of such a number; in bfloat16, norms and residuals keep float32."""
BATCH_MARGIN = 1.5
"""Largest memory that a process took for a batch, relative to its tensors (1.1 to 1.5)."""


@dataclass(frozen=True)
class MemoryNeed:
    """What the training of a model takes, in bytes."""

    parameters: int
    """Number of weights."""
    states: int
    """Weights, gradients and states of the optimizer."""
    batch: int
    """Activations and logits of a batch of `batching.max_tokens` tokens on both sides."""

    least: int
    """What must fit: `states`, and on a CPU the batch of a run that has its batches."""

    def row(self, place: str, available: float) -> list[str]:
        """Return a row of the table: whether training fits into so many bytes."""
        verdict = "fits"
        if self.least > available:
            verdict = "too small"
        elif self.states + BATCH_MARGIN * self.batch > available:
            verdict = "fits with smaller batches"
        numbers = [_gigabytes(self.states), _gigabytes(self.batch), _gigabytes(available)]
        return [place, *numbers, verdict]


def compute_memory(
    config: Config,
    tokenizer: Tokenizer,
    device: str,
    precision: Precision,
    data: Batches | None = None,
) -> MemoryNeed:
    """Return what the training of a config takes on a type of device, such as "cuda".

    `data`: the batches of the run, which can be smaller than `max_tokens`. None: the run has none
    yet, so `max_tokens` can still be chosen to fit.
    """
    model = build_without_weights(config.model, tokenizer.source_vocab, tokenizer.target_vocab)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    numbers = 2 * parameters
    for group in build_optimizer(model, config.training.optimizer).param_groups:
        is_adam = "betas" in group
        copies = 2 if is_adam else int(group["momentum"] > 0)
        numbers += copies * sum(parameter.numel() for parameter in group["params"])
    states = FLOAT32_BYTES * numbers
    tokens = config.batching.max_tokens
    if data is not None:
        lengths = data.train.lengths
        longer_side = int(lengths.sum(axis=0).max()) + len(lengths)  # with an EOS for each pair
        tokens = min(tokens, longer_side)
    batch = _batch_bytes(config, tokens, tokenizer.target_vocab, device, precision)
    must_fit = device == "cpu" and data is not None
    least = states + batch if must_fit else states
    return MemoryNeed(parameters, states, batch, least)


def _batch_bytes(
    config: Config, tokens: int, target_vocab: int, device: str, precision: Precision
) -> int:
    """Return the bytes of activations and logits of a batch; `tokens`: those of each side."""
    width = config.model.d_model
    pair = config.model.as_pair()
    numbers = 0
    for side, half in enumerate((pair.encoder, pair.decoder)):
        ffn = getattr(half, "ffn", 0)  # an LSTM has none
        widths = KEPT_WIDTHS[half.kind][side]
        numbers += half.layers * (widths * width + FFN_WIDTHS * ffn)
    activations = int(ACTIVATION_BYTES[precision] * tokens * numbers)
    chunk = min(tokens, CHUNK_TOKENS.get(device, tokens))
    numbers_per_symbol = chunk + EMBEDDING_COPIES * width
    logits = FLOAT32_BYTES * target_vocab * numbers_per_symbol
    return activations + logits


def check_memory(config: Config, tokenizer: Tokenizer, data: Batches | None = None) -> None:
    """Refuse a training that cannot fit into the memory of this machine, and say what helps.

    Raises:
        UserError: weights, gradients and states of the optimizer, and on a CPU a batch, need more
            than there is.
    """
    if launcher_variable("WORLD_SIZE") > 1:  # the process that started this one has checked it
        return
    device = pick_device(config.training.device)
    precision = pick_precision(config.training.precision, device)
    memory = compute_memory(config, tokenizer, device.type, precision, data)
    available = available_bytes(device)
    if memory.least <= available:
        return
    optimizer = config.training.optimizer.kind
    needs = f"{_gigabytes(memory.states)} for weights, gradients and {optimizer}"
    advice = ["choose a smaller model or a machine with more memory"]
    if memory.states <= available:
        needs = f"{needs}, and {_gigabytes(memory.batch)} for a batch"
        advice = ["lower batching.max_tokens"]
    elif optimizer in ("adam", "adamw"):
        advice.insert(0, "choose training.optimizer.kind muon, which keeps less")
    if config.training.init_from is not None and not config.tokenizer.drop_unused:
        advice.insert(0, "set tokenizer.drop_unused")
    raise UserError(
        f"training {memory.parameters:,} parameters needs {needs}, but there are "
        f"{_gigabytes(available)}: {'; or '.join(advice)}"
    )


def available_bytes(device: torch.device) -> float:
    """Return the memory that training on a device may use; other programs take the rest."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return float(free + torch.cuda.memory_reserved(device))
    return memory_limit_bytes()


def tabulate_memory(config: Config, tokenizer: Tokenizer, data: Batches) -> Iterator[Sequence[str]]:
    """Yield a table of what training takes here and on usual GPUs."""
    device = pick_device(config.training.device)
    precision = pick_precision(config.training.precision, device)
    # Such GPUs multiply bfloat16 faster, which is what "auto" asks for.
    gpu_precision: Precision = "float32" if config.training.precision == "float32" else "bfloat16"
    here = compute_memory(config, tokenizer, device.type, precision, data)
    gpu = compute_memory(config, tokenizer, "cuda", gpu_precision, data)
    yield ["memory by the settings", "model and optimizer", "batch", "there is", ""]
    yield here.row(f"this machine, {precision}", available_bytes(device))
    for gigabytes in GPU_GIGABYTES:
        yield gpu.row(f"GPU of {gigabytes} GB, {gpu_precision}", 1e9 * gigabytes)


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB"
