"""Weights of a model, and the files that they are kept in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mtkit.config.decoding import ModelConfig
from mtkit.config.model import ModelSettings
from mtkit.errors import MtkitError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.weights_file import finite, open_weights


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once (tied ones under one name), on the CPU."""
    return {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}


@torch.no_grad()
def assign_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Fills `model`, whatever device it is on, with weights of its own names and shapes."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def save_weights(weights: dict[str, Tensor], path: Path) -> None:
    """Raises MtkitError where the file cannot be written."""
    try:
        safetensors.torch.save_file(weights, path)
    except SafetensorError as error:
        raise MtkitError(f"{path}: cannot be written: {error}") from error


def load_weights(model: nn.Module, path: Path) -> None:
    """Fills `model` with the weights of a file; UserError as `read_weights`."""
    assign_weights(model, read_weights(model, path))


def read_weights(model: nn.Module, path: Path) -> dict[str, Tensor]:
    """Weights for `model` from a file that holds exactly its parameters, in their shapes.

    Raises UserError as `open_weights`, or naming the first parameter that is not finite.
    """
    parameters = dict(model.named_parameters())
    with open_weights(path, "pt", _shapes(model)) as read:
        return {name: finite(read(name).to(p.dtype), name, path) for name, p in parameters.items()}


def check_weights(model: nn.Module, path: Path) -> None:
    """UserError as `open_weights` where the file's are not of the names and shapes of `model`."""
    with open_weights(path, "pt", _shapes(model)):
        pass


def _shapes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in model.named_parameters()}


def load_model(config: ModelConfig, path: Path) -> EncoderDecoder:
    """The model of `config` with the weights of a file, on the CPU.

    Raises UserError as `read_weights` does, before memory is taken for it: a model that claims to
    be huge is one only if its file is.
    """
    model = without_memory(config.model, config.source_vocab, config.target_vocab)
    # In a file they lie at any address, by which a product may round otherwise than elsewhere.
    weights = {name: weight.clone() for name, weight in read_weights(model, path).items()}
    model.load_state_dict(weights, strict=False, assign=True)  # a tied one has two names there
    return model


def without_memory(settings: ModelSettings, source_vocab: int, target_vocab: int) -> EncoderDecoder:
    """A model without weights: its parameters have names and shapes alone."""
    with _WithoutMemory():
        return EncoderDecoder(settings, source_vocab, target_vocab)


class _WithoutMemory(TorchFunctionMode):
    """Parameters, which begin as empty or zeros, are made on "meta", and no numbers drawn.

    Under torch.device("meta") the first `normal_` or `arange` would take a second of imports.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in (Tensor.normal_, nn.init.normal_):
            return args[0] if args else kwargs["tensor"]
        if function in (torch.empty, torch.zeros):
            kwargs |= {"device": "meta"}
        return function(*args, **kwargs)
