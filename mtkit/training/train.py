"""Stage 3: the wiring of a run, and the plain loop that logs, validates, saves and stops."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from mtkit.artifacts import LATEST, Artifact, find_current, find_model, open_artifact
from mtkit.batching import Batches, open_batches, plan_epoch
from mtkit.config import Config, TrainingSettings
from mtkit.device import pick_device
from mtkit.errors import UserError
from mtkit.models import build_model
from mtkit.models.weights import copied_weights
from mtkit.report import progress, say, warn
from mtkit.tokenizer import Tokenizer
from mtkit.training.export import initialise_from, write_model
from mtkit.training.interrupt import StopSignal
from mtkit.training.journal import Journal
from mtkit.training.precision import pick_precision
from mtkit.training.state import Checkpoints, TrainState, build_optimizer, is_stalled
from mtkit.training.step import train_steps
from mtkit.training.validate import Validator

NOT_IN_THE_MODEL = frozenset(
    {"device", "log_every", "save_every", "keep", "tensorboard", "sample_translations", "init_from"}
)
"""Training settings that change nothing in what is trained, and a path: its model is an input."""
HOW_FAR = frozenset({"steps", "epochs", "patience", "average"})
"""Those that only say how far to go: a run is resumed with other values, too."""


def train(config: Config) -> Artifact:
    """Trains `config.model` on the run's batches, from its last checkpoint if it has one.

    Returns the model artifact. Raises UserError where an earlier stage is missing or a checkpoint
    is of other settings, Interrupted (checkpoint saved) after Ctrl-C or SIGTERM.
    """
    run = Path(config.run)
    tokenizer = open_artifact(run / "tokenizer", "tokenizer")
    data = open_batches(run / "batches")
    if data.artifact.manifest["inputs"]["tokenizer"] != tokenizer.identity:
        raise UserError(f"{run / 'batches'}: encoded with another tokenizer: rerun `mtkit batch`")
    inputs = {"tokenizer": tokenizer.identity, "batches": data.artifact.identity}
    if config.training.init_from is not None:
        inputs["init_from"] = find_model(config.training.init_from).identity
    settings = _settings(config, NOT_IN_THE_MODEL) | {"decoding": config.decoding.model_dump()}
    model = find_current(run / "model", "model", settings, inputs)
    if model is None:
        model = _train(config, data, Tokenizer.load(tokenizer.path), settings, inputs)
    else:
        say(f"train: {run / 'model'} is up to date")
    _link_latest(run)
    return model


def _train(
    config: Config,
    data: Batches,
    tokenizer: Tokenizer,
    settings: Mapping[str, Any],
    inputs: Mapping[str, str],
) -> Artifact:
    run, training = Path(config.run), config.training
    state = _fresh_state(config, tokenizer)
    far = frozenset() if training.schedule.kind == "cosine" else HOW_FAR
    checkpoints = Checkpoints(
        run / "checkpoints", _settings(config, NOT_IN_THE_MODEL | far), inputs
    )
    _announce(config, state, resumed=checkpoints.load_last(state))
    validator = Validator(config, data, tokenizer, state.precision)
    total = training.steps or _steps_of_epochs(config, data)
    with (
        Journal(run, state, tensorboard=training.tensorboard) as journal,
        StopSignal() as stop,
        progress("train", total, "steps") as shown,
        closing(train_steps(state, data, config, total)) as steps,
    ):
        shown.advance(state.step)
        while not _is_finished(config, state):
            journal.add(next(steps))
            shown.advance(note=journal.note)
            at_end = _is_finished(config, state)
            if state.step % training.log_every == 0 or at_end:
                journal.log_step()
            validate = state.step % training.validate_every == 0 or at_end
            if validate:
                _validate(state, validator, journal)
            if state.step % training.save_every == 0 or validate or stop.received:
                _save(state, checkpoints, training)
                stop.raise_if_received()
        if not state.validations:  # an interrupted run, of which fewer steps are asked for now
            _validate(state, validator, journal)
            _save(state, checkpoints, training)
    return write_model(run / "model", state, checkpoints, validator, settings, inputs)


def _fresh_state(config: Config, tokenizer: Tokenizer) -> TrainState:
    training = config.training
    device = pick_device(training.device)
    torch.manual_seed(config.seed)
    model = build_model(config.model, tokenizer.source_vocab, tokenizer.target_vocab)
    if training.init_from is not None:
        initialise_from(training.init_from, model, tokenizer)
    model.to(device).train()
    precision = pick_precision(training.precision, device)
    return TrainState(
        model,
        build_optimizer(model, training.optimizer),
        torch.amp.GradScaler(device.type, enabled=precision == "float16"),
        precision,
        average=copied_weights(model) if training.ema is not None else None,
    )


def _validate(state: TrainState, validator: Validator, journal: Journal) -> None:
    state.validations.append(validator(state.model, state.weights(), state.step))
    journal.log_validation(state.validations[-1], validator.config.training.best_by)


def _save(state: TrainState, checkpoints: Checkpoints, training: TrainingSettings) -> None:
    checkpoints.save(state)
    checkpoints.prune(state.validations, training.best_by, training.keep, training.average)


def _announce(config: Config, state: TrainState, *, resumed: bool) -> None:
    parameters = sum(parameter.numel() for parameter in state.model.parameters())
    device = state.model.output_weight.device
    say(f"train: {config.model.kind}, {parameters:,} parameters, {state.precision} on {device}")
    if resumed:
        say(f"train: resuming after step {state.step:,}")


def _is_finished(config: Config, state: TrainState) -> bool:
    training = config.training
    if training.epochs is not None and state.epoch >= training.epochs:
        return True
    if training.steps is not None and state.step >= training.steps:
        return True
    return is_stalled(state.validations, training.best_by, training.patience)


def _steps_of_epochs(config: Config, data: Batches) -> int:
    """Updates of `training.epochs`, as the first epoch has them; later ones may differ by a few."""
    plan = plan_epoch(
        data.train.lengths,
        max_tokens=config.batching.max_tokens,
        seed=config.seed,
        epoch=0,
        weights=data.weights,
    )
    return (config.training.epochs or 0) * -(-len(plan) // config.training.accumulate)


def _settings(config: Config, left_out: frozenset[str]) -> dict[str, Any]:
    """What a model or checkpoint of this config depends on, but for its inputs."""
    return {
        "seed": config.seed,
        "max_tokens": config.batching.max_tokens,
        "model": config.model.model_dump(),
        "training": config.training.model_dump(exclude=set(left_out)),
    }


def _link_latest(run: Path) -> None:
    """Names the run as the one that `mtkit translate` takes by default in this directory."""
    if LATEST.is_symlink():
        LATEST.unlink()
    if LATEST.exists():
        warn(f"{LATEST} is no symlink: left alone; name the model with -m")
        return
    LATEST.parent.mkdir(exist_ok=True)
    LATEST.symlink_to(os.path.relpath(run, LATEST.parent))
