"""The finished model: which weights it gets, and the self-contained folder they are written to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from mtkit.artifacts import create
from mtkit.config.decoding import ModelConfig
from mtkit.config.recipes import ModelRecipe
from mtkit.config.runs import find_model
from mtkit.config.settings import Course
from mtkit.config.storage import write_json
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import TranslationModel
from mtkit.models.weights import load_weights, save_weights
from mtkit.report import say
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.run.checkpoints import Checkpoints, average_weights
from mtkit.training.run.history import Validation, rank
from mtkit.training.run.validate import Validator
from mtkit.training.state import TrainState


def write_model(
    path: Path,
    recipe: ModelRecipe,
    state: TrainState,
    checkpoints: Checkpoints,
    validator: Validator,
) -> None:
    """Writes the best weights of the run, with the tokenizer and all that decoding needs."""
    kept = _best_weights(recipe.training, state, checkpoints, validator)
    tokenizer = validator.tokenizer
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
    settings = recipe.without_defaults()
    with create(path, "model", settings, checkpoints.inputs, report) as folder:
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


def _best_weights(
    course: Course, state: TrainState, checkpoints: Checkpoints, validator: Validator
) -> Candidate:
    """The best checkpoint, or a rival of it where validation says that one is better.

    Rivals are the mean of the best few and, of a moving average, the weights themselves.
    """
    metric = course.best_by
    there = set(checkpoints.steps())
    ranked = [v for v in rank(state.validations, metric) if v.step in there]
    best = ranked[0].step
    few = [validation.step for validation in ranked[: course.average]]
    rivals: list[tuple[str, dict[str, Tensor], list[int]]] = []
    if len(few) > 1:
        mean = average_weights([checkpoints.weights(step) for step in few])
        rivals.append((f"mean of the best {len(few)} checkpoints", mean, few))
    if state.average is not None:
        rivals.append(("without the moving average", checkpoints.unaveraged(best), [best]))
    kept = Candidate("best checkpoint", checkpoints.weights(best), ranked[0], [best])
    for name, weights, steps in rivals:
        validation = validator(state.model, weights, max(steps))
        scores = [getattr(found, metric) for found in (validation, kept.validation)]
        say(f"{name}: valid {metric} {scores[0]:.3f}, {kept.name} {scores[1]:.3f}")
        if validation.key(metric) < kept.validation.key(metric):
            kept = Candidate(name, weights, validation, steps)
    return kept


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
