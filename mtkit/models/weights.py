"""Weights of a model in safetensors files: data, never code, checked before they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mtkit.config.decoding import ModelConfig
from mtkit.config.model import ModelSettings
from mtkit.errors import MtkitError, UserError
from mtkit.models.encoder_decoder import EncoderDecoder

_FLOATS = ("BF16", "F16", "F32", "F64")


def _present_name(name: str) -> str:
    """Return the present form of a parameter name, which older model folders spell differently."""
    # Once the layers of a half had only numbers, and the LSTM decoder was not a module of its own.
    name = re.sub(r"^(encoder|decoder)\.(\d)", r"\1.layers.\2", name)
    return re.sub(r"^(bridge|attention)\.", r"decoder.\1.", name)


def get_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter once (tied ones under one name), on the CPU.

    The weights of a model on the CPU are not copied: they change as the model changes.
    """
    weights: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():  # names a tied parameter only once
        weights[name] = parameter.detach().cpu().contiguous()
    return weights


@torch.no_grad()
def assign_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into `model`, on any device; names and shapes must be the same."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def save_weights(weights: dict[str, Tensor], path: Path) -> None:
    """Write weights to a file; raise an MtkitError if that fails."""
    try:
        safetensors.torch.save_file(weights, path)
    except SafetensorError as error:
        raise MtkitError(f"{path} cannot be written ({error})") from error


def load_weights(model: nn.Module, path: Path) -> None:
    """Fill `model` with the weights of a file; raise a UserError as `read_weights` does."""
    assign_weights(model, read_weights(path, dict(model.named_parameters())))


def read_weights(
    path: Path, like: Mapping[str, Tensor], *, may_hold_others: bool = False
) -> dict[str, Tensor]:
    """Read the weights that `like` names; `like` gives shapes and types, and may be on "meta".

    Every name, shape and type is checked before any values are read.

    Raises:
        UserError: there is no such file, or a weight is missing, unknown (unless the file
            `may_hold_others`), not finite, or has another shape or type.
    """
    try:
        with safe_open(path, framework="pt") as file:
            name_in_file = {_present_name(name): name for name in file.keys()}  # noqa: SIM118
            missing = like.keys() - name_in_file.keys()
            unknown = name_in_file.keys() - like.keys()
            if missing:
                raise _other_model_error(path, f"{min(missing)} is missing")
            if unknown and not may_hold_others:
                raise _other_model_error(path, f"{min(unknown)} is unknown")
            for name, parameter in like.items():
                header = file.get_slice(name_in_file[name])  # reads no values
                _check_header(header, parameter, where=f"{path}: {name}")
            weights: dict[str, Tensor] = {}
            for name, parameter in like.items():
                weights[name] = file.get_tensor(name_in_file[name]).to(parameter.dtype)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except SafetensorError as error:
        raise UserError(f"{path} is not a safetensors file ({error})") from None
    for name, weight in weights.items():
        # The minimum and the maximum are NaN if any value is NaN.
        if not isfinite(weight.min()) or not isfinite(weight.max()):
            raise UserError(
                f"{path}: the model is unusable, because {name} has values that are NaN or infinite"
            )
    return weights


def _check_header(header: Any, parameter: Tensor, where: str) -> None:
    """Raise UserError if a weight in a file has another shape than `parameter`, or no floats."""
    shape = header.get_shape()
    needed = list(parameter.shape)
    if shape != needed:
        raise UserError(f"{where} has shape {shape}, but the model needs {needed}")
    dtype = header.get_dtype()
    if dtype not in _FLOATS:
        raise UserError(f"{where} has values of type {dtype}; mtkit reads {', '.join(_FLOATS)}")


def _other_model_error(path: Path, difference: str) -> UserError:
    """Return the error for a file that does not have the weights of the model."""
    return UserError(f"{path} has the weights of another model: {difference}")


def load_model(config: ModelConfig, path: Path) -> EncoderDecoder:
    """Load the model of `config` with the weights of a file, on the CPU.

    The file is checked before memory is allocated, so a wrong config cannot allocate a huge model.
    Raises a UserError as `read_weights` does.
    """
    model = build_without_weights(config.model, config.source_vocab, config.target_vocab)
    weights = read_weights(path, dict(model.named_parameters()))
    # Copy to aligned memory, because a product may round differently at another address.
    weights = {name: weight.clone() for name, weight in weights.items()}
    # Not strict, because a tied weight has two names in the model and one in the file. Nothing is
    # missed: `read_weights` has checked the names.
    model.load_state_dict(weights, strict=False, assign=True)
    return model


def build_without_weights(
    settings: ModelSettings, source_vocab: int, target_vocab: int
) -> EncoderDecoder:
    """Build a model whose parameters have names and shapes but no values in memory."""
    with _WithoutMemory():
        return EncoderDecoder(settings, source_vocab, target_vocab)


class _WithoutMemory(TorchFunctionMode):
    """A mode that creates parameters on "meta", torch's device for tensors without values.

    It draws no random numbers. Under torch.device("meta"), the first `normal_` or `arange` would
    import modules for a second.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in (Tensor.normal_, nn.init.normal_):  # return the tensor as it is
            return args[0] if args else kwargs["tensor"]
        if function in (torch.empty, torch.zeros):
            kwargs |= {"device": "meta"}
        return function(*args, **kwargs)
