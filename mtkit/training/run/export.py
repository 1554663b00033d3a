"""The finished model: which weights it gets, and the self-contained folder they are written to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from mtkit.artifacts import create
from mtkit.config.decoding import ModelConfig
from mtkit.config.recipes import ModelRecipe
from mtkit.config.storage import write_json
from mtkit.models.weights import save_weights
from mtkit.report import say
from mtkit.training.job import Job
from mtkit.training.run.validate import validate
from mtkit.training.state import TrainState, Validation, rank


def write_model(job: Job, state: TrainState) -> None:
    """Writes the best weights of the run, with the tokenizer and all that decoding needs."""
    kept, tokenizer = _best_weights(job, state), job.tokenizer
    recipe = ModelRecipe.of(job.config, job.ranks.count)
    report = {
        "weights": kept.name,
        "validation": asdict(kept.validation),
        "averaged_steps": kept.steps,
        "steps": state.step,
        "epochs": state.position.epoch,
        "parameters": sum(weight.numel() for weight in kept.weights.values()),
        "precision": state.precision,
        "training_seconds": round(state.seconds, 1),
    }
    card = ModelConfig(
        model=recipe.model,
        source_vocab=tokenizer.source_vocab,
        target_vocab=tokenizer.target_vocab,
        decoding=recipe.decoding,
    )
    path, settings = Path(job.config.run) / "model", recipe.without_defaults()
    with create(path, "model", settings, job.checkpoints.inputs, report) as folder:
        save_weights(kept.weights, folder / "model.safetensors")
        write_json(folder / "config.json", card.model_dump())
        tokenizer.copy_to(folder)


@dataclass(frozen=True)
class Candidate:
    """Weights that the finished model may get."""

    name: str
    weights: dict[str, Tensor]
    validation: Validation
    steps: list[int]
    """Steps of the checkpoints that the weights are from."""


def _best_weights(job: Job, state: TrainState) -> Candidate:
    """The best checkpoint, or a rival of it where validation says that one is better.

    Rivals are the mean of the best few and, of a moving average, the weights themselves.
    """
    checkpoints, metric = job.checkpoints, job.config.training.best_by
    there = set(checkpoints.steps())
    ranked = [v for v in rank(state.validations, metric) if v.step in there]
    best = ranked[0].step
    few = [validation.step for validation in ranked[: job.config.training.average]]
    rivals: list[tuple[str, dict[str, Tensor], list[int]]] = []
    if len(few) > 1:
        all_weights = [checkpoints.weights(step) for step in few]
        mean = {
            name: torch.stack([weights[name] for weights in all_weights]).mean(dim=0)
            for name in all_weights[0]
        }
        rivals.append((f"mean of the best {len(few)} checkpoints", mean, few))
    if state.average is not None:
        rivals.append(("without the moving average", checkpoints.unaveraged(best), [best]))
    kept = Candidate("best checkpoint", checkpoints.weights(best), ranked[0], [best])
    for name, weights, steps in rivals:
        validation = validate(job, state, weights, max(steps))
        scores = [getattr(found, metric) for found in (validation, kept.validation)]
        say(f"{name}: valid {metric} {scores[0]:.3f}, {kept.name} {scores[1]:.3f}")
        if validation.key(metric) < kept.validation.key(metric):
            kept = Candidate(name, weights, validation, steps)
    return kept
