"""The memory that training takes, computed from the settings alone.

Weights, gradients and the states of the optimizer must fit. Activations and logits grow with the
batch; if they do not fit, training halves its batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from mtkit.config.settings import Config, Muon, Optimizer, Sgd
from mtkit.errors import UserError
from mtkit.machine import launcher_variable, memory_limit_bytes
from mtkit.models.device import Precision, pick_device, pick_precision
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.weights import build_without_weights
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.loss import CHUNK_TOKENS

FLOAT32_BYTES = 4
LARGE_SHARE = 0.25
"""Share of the weights from which it helps to drop rows of the embedding; NLLB-600M has 0.43."""
GPU_GIGABYTES = (16, 80)
"""Memory of usual GPUs, such as an RTX 4080 and an A100."""
ENCODER_NUMBERS, DECODER_NUMBERS, FFN_NUMBERS = 10, 18, 2
"""Numbers per token that a layer keeps for the backward pass: multiples of the width and of `ffn`.

Counted in Transformers of several sizes, as autograd keeps them.
"""
ACTIVATION_BYTES = {"float32": 4.0, "bfloat16": 2.8}
"""Mean size of such a number; in bfloat16, norms and residuals keep float32."""


@dataclass(frozen=True)
class MemoryNeed:
    """What the training of a model takes, in bytes."""

    parameters: int
    """Number of weights."""
    states: int
    """Weights, gradients and states of the optimizer."""
    batch: int
    """Activations and logits of a batch of `batching.max_tokens` tokens on both sides."""

    def fit(self, available: float) -> str:
        """Return whether training fits into so many bytes."""
        if self.states > available:
            return "too small"
        return "fits" if self.states + self.batch <= available else "fits with smaller batches"


def compute_memory(
    config: Config, tokenizer: Tokenizer, device: str, precision: Precision
) -> MemoryNeed:
    """Return what the training of a config takes on a type of device, such as "cuda"."""
    model = build_without_weights(config.model, tokenizer.source_vocab, tokenizer.target_vocab)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    states = 2 * parameters + _count_states(model, config.training.optimizer)
    return MemoryNeed(
        parameters=parameters,
        states=FLOAT32_BYTES * states,
        batch=_batch_bytes(config, tokenizer.target_vocab, device, precision),
    )


def _count_states(model: EncoderDecoder, optimizer: Optimizer) -> int:
    """Return how many numbers an optimizer keeps between steps."""
    count = 0
    for name, parameter in model.named_parameters():
        is_matrix_of_layer = parameter.dim() == 2 and ".layers." in name
        if isinstance(optimizer, Sgd):
            copies = 1 if optimizer.momentum else 0
        elif isinstance(optimizer, Muon) and is_matrix_of_layer:
            copies = 1
        else:
            copies = 2
        count += copies * parameter.numel()
    return count


def _batch_bytes(config: Config, target_vocab: int, device: str, precision: Precision) -> int:
    tokens = config.batching.max_tokens
    pair = config.model.as_pair()
    width = config.model.d_model
    encoder_numbers = ENCODER_NUMBERS * width + FFN_NUMBERS * getattr(pair.encoder, "ffn", 0)
    decoder_numbers = DECODER_NUMBERS * width + FFN_NUMBERS * getattr(pair.decoder, "ffn", 0)
    numbers = pair.encoder.layers * encoder_numbers + pair.decoder.layers * decoder_numbers
    activations = ACTIVATION_BYTES[precision] * tokens * numbers
    # Logits of one chunk, and the gradient of the output's weights.
    chunk = min(tokens, CHUNK_TOKENS.get(device, tokens))
    output = FLOAT32_BYTES * target_vocab * (chunk + width)
    return int(activations + output)


def check_memory(config: Config, tokenizer: Tokenizer) -> None:
    """Refuse a training that cannot fit into the memory of this machine, and say what helps.

    Raises:
        UserError: weights, gradients and states of the optimizer need more than there is.
    """
    if launcher_variable("WORLD_SIZE") > 1:  # the process that started this one has checked it
        return
    device = pick_device(config.training.device)
    precision = pick_precision(config.training.precision, device)
    memory = compute_memory(config, tokenizer, device.type, precision)
    available = available_bytes(device)
    if memory.states <= available:
        return
    optimizer = config.training.optimizer.kind
    advice: list[str] = []
    is_given = config.training.init_from is not None
    embedding = tokenizer.target_vocab * config.model.d_model
    has_large_vocabulary = embedding > LARGE_SHARE * memory.parameters
    if is_given and has_large_vocabulary and not config.tokenizer.drop_unused:
        advice.append("set tokenizer.drop_unused")
    if optimizer in ("adam", "adamw"):
        advice.append("choose training.optimizer.kind muon, which keeps less")
    advice.append("choose a smaller model or a machine with more memory")
    raise UserError(
        f"training {memory.parameters:,} parameters needs {_gigabytes(memory.states)} for weights, "
        f"gradients and {optimizer}, but there are {_gigabytes(available)}: {'; or '.join(advice)}"
    )


def available_bytes(device: torch.device) -> float:
    """Return the memory that training on a device may use."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    return memory_limit_bytes()


def tabulate_memory(config: Config, tokenizer: Tokenizer) -> Iterator[Sequence[str]]:
    """Yield a table of what training takes here and on usual GPUs."""
    yield ["memory by the settings", "model and optimizer", "batch", "there is", ""]
    device = pick_device(config.training.device)
    precision = pick_precision(config.training.precision, device)
    name = f"this machine, {device.type}, {precision}"
    yield _row(
        name, compute_memory(config, tokenizer, device.type, precision), available_bytes(device)
    )
    # Such GPUs multiply bfloat16 faster, which is what "auto" asks for.
    gpu_precision: Precision = "float32" if config.training.precision == "float32" else "bfloat16"
    memory = compute_memory(config, tokenizer, "cuda", gpu_precision)
    for gigabytes in GPU_GIGABYTES:
        yield _row(f"GPU of {gigabytes} GB, {gpu_precision}", memory, 1e9 * gigabytes)


def _row(place: str, memory: MemoryNeed, available: float) -> list[str]:
    sizes = [_gigabytes(size) for size in (memory.states, memory.batch, available)]
    return [place, *sizes, memory.fit(available)]


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB"
