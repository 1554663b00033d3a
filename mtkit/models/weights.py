"""Weights as safetensors: data, never code; and nothing in them but names and finite numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mtkit.errors import MtkitError, UserError
from mtkit.models.names import name_today

FLOATS = frozenset({"BF16", "F16", "F32", "F64"})
"""What safetensors calls the types that weights may have."""
Model = TypeVar("Model", bound=nn.Module)


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

    Raises UserError naming the first parameter that is missing, unknown, of another shape or not
    finite; names and shapes are compared before anything is read.
    """
    weights: dict[str, Tensor] = {}
    with _opened(path) as file:
        names = _checked_names(model, file, path)
        for name, parameter in model.named_parameters():
            weights[name] = file.get_tensor(names[name]).to(parameter.dtype)
            if not all(bound.isfinite() for bound in weights[name].aminmax()):
                raise UserError(f"{path}: {name} has values that are not finite: a broken model")
    return weights


def load_model_of(build: Callable[[], Model], path: Path) -> Model:
    """What `build` makes, with the weights of a file, on the CPU.

    Raises UserError as `load_weights` does, before memory is taken for it: a model that claims to
    be huge is one only if its file is.
    """
    with _WithoutMemory():
        shapes = build()
    with _opened(path) as file:
        _checked_names(shapes, file, path)
    model = build()
    load_weights(model, path)
    return model


def _checked_names(model: nn.Module, file: Any, path: Path) -> dict[str, str]:
    """What the file calls each parameter of `model`; UserError where it does not hold just those.

    Shapes and types are compared as well, and nothing is read.
    """
    parameters = dict(model.named_parameters())
    names = {name_today(name): name for name in file.keys()}  # noqa: SIM118 (no mapping)
    if names.keys() != parameters.keys():
        odd = min(names.keys() ^ parameters.keys())
        raise UserError(f"{path}: weights of another model (parameter {odd})")
    for name, parameter in parameters.items():
        weight, wanted = file.get_slice(names[name]), list(parameter.shape)
        if weight.get_shape() != wanted:
            raise UserError(
                f"{path}: {name} has shape {weight.get_shape()}, the model wants {wanted}"
            )
        if weight.get_dtype() not in FLOATS:
            raise UserError(f"{path}: {name} has values of type {weight.get_dtype()}: no weights")
    return names


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file as safetensors' `safe_open`, which has no types."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except SafetensorError as error:
        raise UserError(f"{path}: not a safetensors file ({error})") from None


class _WithoutMemory(TorchFunctionMode):
    """Parameters, which all begin as `torch.empty`, are made on "meta", and no numbers drawn.

    Under torch.device("meta") the first `normal_` or `arange` would take a second of imports.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if function in (Tensor.normal_, nn.init.normal_):
            return args[0] if args else kwargs["tensor"]
        if function is torch.empty:
            kwargs = {**kwargs, "device": "meta"}
        return function(*args, **kwargs)
