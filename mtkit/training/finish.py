"""The end of a run: its best weights become the model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from torch import Tensor

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.records import dump_record
from mtkit.artifacts.runs import CHECKPOINTS, WEIGHTS, checkpoint_steps
from mtkit.artifacts.stage import Stage
from mtkit.config.settings import Config
from mtkit.decoding.estimation.estimator import Estimator, load_estimator
from mtkit.errors import MtkitError, UserError
from mtkit.machine import check_single_process
from mtkit.models.weights import assign_weights, save_weights
from mtkit.report import say
from mtkit.scoring.adaptation import describe_adaptation
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.calibration import make_estimator
from mtkit.training.candidates import choose_trained
from mtkit.training.interpolation import limit_harm
from mtkit.training.process_group import SINGLE_PROCESS
from mtkit.training.setup import RunInputs, TrainingRun, open_inputs, open_run
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
            say(f"train: all {progress.step:,} steps are done, so only the model is missing")
        else:
            say(f"train: finishing early, after step {progress.step:,} of {run.total_steps:,}")
            ended = progress.step
        if progress.step not in [validation.step for validation in progress.validations]:
            progress.validations.append(validate(run, state))
        stage = inputs.stage("model", ended)
        write_model(run, state, stage)
    return stage.open()


def write_model(run: TrainingRun, state: TrainState, stage: Stage) -> None:
    """Write the model of the run: its best weights, and everything else that decoding needs."""
    best = choose_trained(run, state)
    if not math.isfinite(best.validation.loss):
        raise MtkitError(
            f"training diverged: no model is written, because the validation loss of the "
            f"{best.name} is {best.validation.loss:g}; lower the learning rate and train in "
            "another run directory (--run)"
        )
    adaptation = None
    if run.config.training.max_harm is not None:
        best, adaptation = limit_harm(run, state, best)
    if not run.group.is_main:
        return
    is_given_model = adaptation is not None and adaptation.is_refused
    content = _restore_given_model(run.inputs) if is_given_model else None
    if content is None:
        assign_weights(state.model, best.weights)
        estimator = make_estimator(run.inputs, state.model.eval(), state.progress.step)
        content = _ModelContent(run.inputs, best.weights, estimator)
    with stage.write() as draft:
        if adaptation is not None:
            verdict = describe_adaptation(adaptation)
            draft.report["adaptation"] = dump_record(adaptation) | {"verdict": verdict}
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


@dataclass(frozen=True)
class _ModelContent:
    """What the model of a run is made of."""

    inputs: RunInputs
    """Their tokenizer is that of the model."""
    weights: dict[str, Tensor]
    estimator: Estimator


def _restore_given_model(inputs: RunInputs) -> _ModelContent | None:
    """Return the given model with its own vocabulary; None if this run has the same vocabulary.

    Its estimator is the one that it brings along: a new one would need the training data in ids of
    its vocabulary.
    """
    origin = inputs.origin
    assert origin is not None  # an adapted model has one
    tokenizer = Tokenizer.load(origin)
    if tokenizer.models == inputs.tokenizer.models:
        return None
    say("train: the model keeps the vocabulary of the given model, without the new subwords")
    return _ModelContent(
        inputs=replace(inputs, tokenizer=tokenizer),
        weights=inputs.read_given_weights(origin, tokenizer),
        estimator=load_estimator(origin),
    )
