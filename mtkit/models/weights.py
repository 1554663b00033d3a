"""Weights as safetensors: data, never code; and nothing in them but names and numbers."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from mtkit.errors import UserError


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once (tied ones under one name), on the CPU."""
    return {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}


def copied_weights(model: nn.Module) -> dict[str, Tensor]:
    """As `weights_of`, in memory of their own."""
    return {name: weight.clone() for name, weight in weights_of(model).items()}


@torch.no_grad()
def assign_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Fills `model`, whatever device it is on, with weights of its own names and shapes."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def save_weights(weights: dict[str, Tensor], path: Path) -> None:
    safetensors.torch.save_file(weights, path)


def load_weights(model: nn.Module, path: Path) -> None:
    """Fills `model` from a file that holds exactly its parameters, in their shapes.

    Raises UserError naming the first parameter that is missing, unknown or of another shape; shapes
    are compared before anything is read.
    """
    parameters = dict(model.named_parameters())
    try:
        with safe_open(path, framework="pt") as file, torch.no_grad():
            names = set(file.keys())
            if names != set(parameters):
                odd = min(names ^ set(parameters))
                raise UserError(f"{path}: weights of another model (parameter {odd})")
            for name, parameter in parameters.items():
                found, wanted = file.get_slice(name).get_shape(), list(parameter.shape)
                if found != wanted:
                    raise UserError(f"{path}: {name} has shape {found}, the model wants {wanted}")
                parameter.copy_(file.get_tensor(name))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except SafetensorError as error:
        raise UserError(f"{path}: not a safetensors file ({error})") from None
