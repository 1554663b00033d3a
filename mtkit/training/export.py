"""The finished model: which weights it gets, and the self-contained folder they are written to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from mtkit.artifacts import Artifact, create, find_model, open_artifact, write_json
from mtkit.config import ModelConfig
from mtkit.errors import UserError
from mtkit.models import TranslationModel
from mtkit.models.weights import load_weights, save_weights
from mtkit.report import say
from mtkit.tokenizer import Tokenizer
from mtkit.training.checkpoints import Checkpoints, average_weights
from mtkit.training.history import Validation, rank
from mtkit.training.state import TrainState
from mtkit.training.validate import Validator


def write_model(
    path: Path,
    state: TrainState,
    checkpoints: Checkpoints,
    validator: Validator,
    settings: Mapping[str, Any],
    inputs: Mapping[str, str],
) -> Artifact:
    """Writes the best weights of the run, with the tokenizer and all that decoding needs."""
    weights, validation, steps = _best_weights(state, checkpoints, validator)
    config, tokenizer = validator.config, validator.tokenizer
    report = {
        "validation": asdict(validation),
        "averaged_steps": steps,
        "steps": state.step,
        "epochs": state.epoch,
        "parameters": sum(weight.numel() for weight in weights.values()),
        "precision": state.precision,
        "training_seconds": round(state.seconds, 1),
    }
    card = ModelConfig(
        model=config.model,
        source_vocab=tokenizer.source_vocab,
        target_vocab=tokenizer.target_vocab,
        decoding=config.decoding,
    )
    with create(path, "model", settings, inputs, report) as folder:
        save_weights(weights, folder / "model.safetensors")
        write_json(folder / "config.json", card.model_dump())
        tokenizer.copy_to(folder)
    return open_artifact(path, "model")


def _best_weights(
    state: TrainState, checkpoints: Checkpoints, validator: Validator
) -> tuple[dict[str, Tensor], Validation, list[int]]:
    """The best checkpoint, or the mean of the best few where validation says it is better."""
    training = validator.config.training
    there = set(checkpoints.steps())
    ranked = [v for v in rank(state.validations, training.best_by) if v.step in there]
    best = ranked[0]
    weights = checkpoints.weights(best.step)
    steps = [validation.step for validation in ranked[: training.average]]
    if len(steps) < 2:
        return weights, best, [best.step]
    mean = average_weights([checkpoints.weights(step) for step in steps])
    averaged = validator(state.model, mean, state.step)
    better = averaged.key(training.best_by) < best.key(training.best_by)
    scores = [getattr(validation, training.best_by) for validation in (averaged, best)]
    say(
        f"mean of the best {len(steps)} checkpoints: valid {training.best_by} {scores[0]:.3f}, "
        f"the best alone {scores[1]:.3f}"
    )
    return (mean, averaged, steps) if better else (weights, best, [best.step])


def initialise_from(path: str, model: TranslationModel, tokenizer: Tokenizer) -> None:
    """Fills a new model with the weights of a trained one: fine-tuning.

    Raises UserError if that one is of another shape or has another tokenizer.
    """
    artifact = find_model(path)
    if not Tokenizer.load(artifact.path).is_same_as(tokenizer):
        raise UserError(
            f"training.init_from: {artifact.path} has another tokenizer than this run: "
            "`mtkit train-spm` with this setting takes over the model's"
        )
    load_weights(model, artifact.path / "model.safetensors")
