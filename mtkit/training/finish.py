"""The end of a run: its best weights become the model."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import CHECKPOINTS, WEIGHTS, checkpoint_steps
from mtkit.artifacts.stage import Stage
from mtkit.config.settings import Config
from mtkit.decoding.estimation.estimator import WITHOUT_FACTS, Estimator
from mtkit.errors import MtkitError, UserError
from mtkit.machine import check_single_process
from mtkit.models.weights import assign_weights, save_weights
from mtkit.plugins import find_action
from mtkit.report import say
from mtkit.training.candidates import choose_trained
from mtkit.training.fine_tuning import FineTuning, ModelContent, find_fine_tuning
from mtkit.training.process_group import SINGLE_PROCESS
from mtkit.training.setup import TrainingRun, open_inputs, open_run
from mtkit.training.state import TrainState, is_finished
from mtkit.training.validation import validate, validation_signatures


def finish(config: Config) -> Artifact:
    """End a run early: write a model with the best weights so far; use only this process.

    The checkpoints stay as they are, so `train` can still resume; it replaces the model at its end.

    Raises:
        UserError: an earlier stage is missing, no checkpoint has been saved yet, or torchrun has
            started several processes.
    """
    check_single_process()
    fine_tuning = find_fine_tuning(config)
    inputs = open_inputs(config)
    last = checkpoint_steps(Path(config.run) / CHECKPOINTS)[-1:]
    for step in (None, *last):
        if model := inputs.stage("model", step).current():
            say(f"train: {model.path} is up to date")
            return model
    if not last:
        raise UserError(f"{config.run} has no checkpoint yet; train with `mtkit train`")
    with open_run(inputs, SINGLE_PROCESS) as (run, state):
        progress = state.progress
        ended = None
        if is_finished(config.training, progress):
            say(f"train: all {progress.step:,} steps are done; writing the model")
        else:
            say(f"train: finishing early, after step {progress.step:,} of {run.total_steps:,}")
            ended = progress.step
        if progress.step not in [validation.step for validation in progress.validations]:
            progress.validations.append(validate(run, state))
        stage = inputs.stage("model", ended)
        write_model(run, state, stage, fine_tuning)
    return stage.open()


def write_model(run: TrainingRun, state: TrainState, stage: Stage, fine_tuning: FineTuning) -> None:
    """Write the model of the run: its best weights, and everything else that decoding needs."""
    trained = choose_trained(run, state)
    if not math.isfinite(trained.validation.loss):
        raise MtkitError(
            f"training diverged: no model is written, because the validation loss of the "
            f"{trained.name} is {trained.validation.loss:g}; lower the learning rate and train in "
            "another run directory (--run)"
        )
    ending = fine_tuning.end(run, state, trained)
    if not run.group.is_main:
        return
    best = ending.best
    content = ending.base
    if content is None:
        assign_weights(state.model, best.weights)
        estimator = _make_estimator(run, state)
        content = ModelContent(run.inputs, best.weights, estimator)
    with stage.write() as draft:
        draft.report.update(ending.report)
        draft.report.update(
            {
                "weights": best.name,
                "validation": asdict(best.validation),
                "signatures": validation_signatures(run.inputs),
                "averaged_steps": best.steps,
                "steps": state.progress.step,
                "epochs": state.progress.position.epoch,
                "pairs": len(run.inputs.data.train),
                "parameters": sum(weight.numel() for weight in content.weights.values()),
                "precision": state.progress.precision,
                "training_seconds": round(state.seconds, 1),
            }
        )
        draft.report.update(run.inputs.ancestors())
        content.inputs.save_model_config(draft.folder)
        save_weights(content.weights, draft.folder / WEIGHTS)
        content.estimator.save(draft.folder)


def _make_estimator(run: TrainingRun, state: TrainState) -> Estimator:
    """Return the quality estimator of the model; one without facts if no extra makes one."""
    make_estimator = find_action("estimator")
    if make_estimator is None:
        return WITHOUT_FACTS
    estimator: Estimator = make_estimator(run.inputs, state.model.eval(), state.progress.step)
    return estimator
