"""All that a run is between two updates, and its checkpoints.

The order of batches is a function of (seed, epoch), the learning rate of the step and the
validations, dropout of (seed, step, micro-batch): so weights, optimizer moments and a few numbers
are enough to go on exactly as if nothing had happened.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from mtkit.artifacts import Artifact, create, find_current, open_artifact, write_json
from mtkit.config import Adam, Metric, Optimizer
from mtkit.errors import UserError
from mtkit.models import TranslationModel
from mtkit.models.weights import load_weights, save_weights, weights_of

LOWER_IS_BETTER: frozenset[Metric] = frozenset({"loss", "perplexity"})
INDEX = "checkpoints.json"


@dataclass(frozen=True)
class Validation:
    """The model at `step`: nats per target token (no smoothing), and scores of decoded text."""

    step: int
    loss: float
    perplexity: float
    bleu: float | None = None
    chrf: float | None = None

    def key(self, metric: Metric) -> float:
        """Smaller is better, whatever the metric."""
        value = getattr(self, metric)
        return float(value) if metric in LOWER_IS_BETTER else -float(value)


@dataclass
class Window:
    """Sums since the last logged step."""

    smoothed: float = 0.0
    nll: float = 0.0
    tokens: int = 0


@dataclass
class TrainState:
    """Mutable through `train_step` and the loop around it."""

    model: TranslationModel
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    precision: str
    average: dict[str, Tensor] | None = None
    """Exponential moving average of the weights, if asked for."""
    step: int = 0
    epoch: int = 0
    offset: int = 0
    """Updates of this epoch that are done."""
    window: Window = field(default_factory=Window)
    validations: list[Validation] = field(default_factory=list)
    seconds: float = 0.0
    """How long the run took so far, interruptions apart."""

    def weights(self) -> dict[str, Tensor]:
        """What is validated and kept: the moving average where there is one."""
        return weights_of(self.model) if self.average is None else self.average


def build_optimizer(model: TranslationModel, settings: Optimizer) -> torch.optim.Optimizer:
    """The learning rate is set before every update, from the schedule."""
    parameters = list(model.parameters())
    if not isinstance(settings, Adam):
        return torch.optim.SGD(
            parameters, lr=0.0, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
    shared: dict[str, Any] = {
        "lr": 0.0,
        "betas": (settings.beta1, settings.beta2),
        "eps": settings.eps,
        "weight_decay": settings.weight_decay,
    }
    match settings.kind:
        case "adam":
            return torch.optim.Adam(parameters, **shared, fused=True)
        case "adamw":
            return torch.optim.AdamW(parameters, **shared, fused=True)
        case "radam":
            return torch.optim.RAdam(parameters, **shared)


def rank(validations: Sequence[Validation], metric: Metric) -> list[Validation]:
    """Best first; the earlier of equals first."""
    return sorted(validations, key=lambda validation: validation.key(metric))


def is_stalled(validations: Sequence[Validation], metric: Metric, patience: int | None) -> bool:
    """Whether the last `patience` validations brought no new best."""
    if patience is None or not validations:
        return False
    best = rank(validations, metric)[0]
    return len(validations) - 1 - validations.index(best) >= patience


class Checkpoints:
    """The folder of checkpoints of one run, all of one request."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], inputs: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.inputs = inputs

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """Steps of the complete checkpoints, oldest first."""
        return sorted(int(p.parent.name[5:]) for p in self.folder.glob("step-*/manifest.json"))

    def save(self, state: TrainState) -> None:
        """Writes the state as it is, complete or not at all."""
        report = {"seconds": state.seconds}
        path = self.path(state.step)
        with create(path, "checkpoint", self.settings, self.inputs, report) as folder:
            save_weights(weights_of(state.model), folder / "model.safetensors")
            if state.average is not None:
                save_weights(state.average, folder / "average.safetensors")
            safetensors.torch.save_file(_moments(state.optimizer), folder / "optimizer.safetensors")
            write_json(folder / "state.json", _numbers(state))

    def prune(
        self, validations: Sequence[Validation], metric: Metric, newest: int, best: int
    ) -> None:
        """Keeps the newest and the best, and names the last and the best in a small JSON."""
        steps = self.steps()
        ranked = [v.step for v in rank(validations, metric) if v.step in steps]
        write_json(
            self.folder / INDEX, {"last": steps[-1], "best": ranked[0] if ranked else steps[-1]}
        )
        for step in set(steps[:-newest]) - set(ranked[:best]):
            shutil.rmtree(self.path(step))

    def load_last(self, state: TrainState) -> bool:
        """Fills `state` from the newest checkpoint; False where there is none.

        Raises UserError if it was made with other settings or from other data.
        """
        steps = self.steps()
        if not steps:
            return False
        checkpoint = self.open(steps[-1])
        load_weights(state.model, checkpoint.path / "model.safetensors")
        if state.average is not None:
            state.average = self.weights(steps[-1])
        _restore(state, checkpoint.path)
        state.seconds = checkpoint.report["seconds"]
        return True

    def open(self, step: int) -> Artifact:
        checkpoint = find_current(self.path(step), "checkpoint", self.settings, self.inputs)
        if checkpoint is None:
            found = open_artifact(self.path(step), "checkpoint").manifest
            raise UserError(
                f"{self.path(step)}: a checkpoint of other settings "
                f"({_difference(found, self.settings, self.inputs)}): go back to them, choose "
                f"another run, or delete {self.folder}"
            )
        return open_artifact(checkpoint.path, "checkpoint", verify=True)

    def weights(self, step: int) -> dict[str, Tensor]:
        """The weights that were validated at `step`."""
        path = self.path(step)
        averaged = path / "average.safetensors"
        return safetensors.torch.load_file(
            averaged if averaged.exists() else path / "model.safetensors"
        )


def average_weights(checkpoints: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each parameter."""
    return {
        name: torch.stack([weights[name] for weights in checkpoints]).mean(dim=0)
        for name in checkpoints[0]
    }


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's tensors under "parameter index.name"."""
    states = optimizer.state_dict()["state"]
    return {
        f"{index}.{name}": torch.as_tensor(value).cpu().contiguous()
        for index, moments in states.items()
        for name, value in moments.items()
        if value is not None
    }


def _numbers(state: TrainState) -> dict[str, Any]:
    return {
        "step": state.step,
        "epoch": state.epoch,
        "offset": state.offset,
        "precision": state.precision,
        "scaler": state.scaler.state_dict(),
        "window": vars(state.window),
        "validations": [vars(validation) for validation in state.validations],
    }


def _restore(state: TrainState, folder: Path) -> None:
    numbers = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    state.step, state.epoch, state.offset = (numbers[key] for key in ("step", "epoch", "offset"))
    state.precision = numbers["precision"]
    state.scaler.load_state_dict(numbers["scaler"])
    state.window = Window(**numbers["window"])
    state.validations = [Validation(**validation) for validation in numbers["validations"]]
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in safetensors.torch.load_file(folder / "optimizer.safetensors").items():
        index, name = key.split(".", 1)
        states.setdefault(int(index), {})[name] = value
    groups = state.optimizer.state_dict()["param_groups"]
    state.optimizer.load_state_dict({"state": states, "param_groups": groups})


def _difference(
    found: Mapping[str, Any], settings: Mapping[str, Any], inputs: Mapping[str, str]
) -> str:
    """The first thing in which a checkpoint differs from what is asked."""
    before = _flatten({**found["settings"], "inputs": found["inputs"]})
    now = _flatten({**settings, "inputs": inputs})
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            return f"{key}: {before.get(key)}, now {now.get(key)}"
    return "another mtkit format"


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
