"""Stage 3: the loop that makes steps, logs, validates, saves and stops."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from mtkit import plugins
from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.stage import Stage
from mtkit.config.schedules import ScheduleInputs
from mtkit.config.settings import Config, TrainingSettings
from mtkit.config.yaml import as_config
from mtkit.errors import Interrupted, MtkitError, UserError
from mtkit.models.device import pick_device
from mtkit.prefetch import prefetch
from mtkit.progress import progress as show_progress
from mtkit.report import say, warn
from mtkit.signals import StopSignals
from mtkit.training.agreement import check_same_inputs
from mtkit.training.batch import Batch
from mtkit.training.data import StepData
from mtkit.training.fine_tuning import find_fine_tuning
from mtkit.training.finish import write_model
from mtkit.training.journal import Journal
from mtkit.training.launcher import start_processes
from mtkit.training.process_group import connect_processes
from mtkit.training.processes import count_processes
from mtkit.training.setup import TrainingRun, open_inputs, open_run
from mtkit.training.state import TrainingProgress, TrainState, is_finished, is_stalled
from mtkit.training.step import BatchTooLargeError, train_step
from mtkit.training.validation import StoppedValidation, validate, validation_signatures

MAX_SKIPPED = 5
"""Number of consecutive steps skipped for lack of a finite gradient before a run rolls back."""
MIN_RATE_SCALE = 1 / 64
"""Smallest factor of the learning rate; below it, rolling back again would not help."""


class DivergedError(MtkitError):
    """Too many steps in a row were skipped."""


def train(config: Config | str | Path) -> Artifact:
    """Train the model of a config on the run's batches, and return the artifact `RUN/model`.

    Resume from the last checkpoint, if there is one. Start as many processes as are useful, unless
    torchrun or Slurm has started several.

    Raises:
        UserError: an earlier stage is missing, a checkpoint was made with other settings, or the
            processes that torchrun has started have different inputs.
        Interrupted: a stop signal arrived; a checkpoint has been saved.
        MtkitError: out of memory, diverged, or a process was lost; checkpoints remain, if any.
    """
    config = as_config(config)
    fine_tuning = find_fine_tuning(config)
    with connect_processes(pick_device(config.training.device)) as group:
        with group.fail_together():
            inputs = open_inputs(config)
            stage = inputs.stage("model")
            model = stage.current()
        check_same_inputs(group, stage, model)
        if model is not None:
            say(f"train: {stage.path} is up to date")
            return model
        if "memory" in plugins.find_plugins("actions"):
            plugins.load_plugin("actions", "memory")(config, inputs.tokenizer, inputs.data)
        if (count := count_processes(config, inputs.tokenizer)) > 1:
            start_processes(train, count, config)
            return stage.open()
        with open_run(inputs, group) as (run, state):
            if group.is_main:
                _explain_rebuild(stage)
            _train_to_end(run, state)
            write_model(run, state, stage, fine_tuning)
    return stage.open()


def _explain_rebuild(stage: Stage) -> None:
    """Say why a model that exists is not up to date; after `mtkit finish` it needs no rebuild."""
    with suppress(UserError):  # there is no model, or it is damaged
        change = stage.difference(stage.open())
        if change is not None and change.key == ("ended",):
            say(
                f"train: `mtkit finish` made {stage.path} after step {change.before:,}; training "
                "continues, and replaces it at the end"
            )
            return
    stage.explain_rebuild()


def _train_to_end(run: TrainingRun, state: TrainState) -> None:
    """Train until the run is finished, rolling back after divergence."""
    is_complete = False
    while not is_complete:
        try:
            _train_loop(run, state)
            is_complete = True
        except DivergedError as divergence:
            _roll_back(run, state, divergence)
    run.group.barrier()  # the last checkpoint is written


def _roll_back(run: TrainingRun, state: TrainState, divergence: DivergedError) -> None:
    """Load the last checkpoint of before the divergence, and halve the learning rate.

    Raises:
        DivergedError: there is no such checkpoint, or the learning rate was halved too often.
    """
    rate_scale = state.progress.rate_scale / 2
    if rate_scale < MIN_RATE_SCALE:
        raise divergence
    if run.checkpoints.load_last(state, healthy=True) is None:
        raise divergence
    run.group.barrier()  # all have read it
    progress = state.progress
    if run.group.is_main:
        run.checkpoints.remove_after(progress.step)
    progress.rate_scale = rate_scale
    progress.skipped_in_a_row = 0
    progress.most_skipped_in_a_row = 0
    state.write_figures()
    warn(
        f"{divergence}; rolled back to step {progress.step:,}, at {rate_scale:g} × the learning "
        "rate"
    )


def _train_loop(run: TrainingRun, state: TrainState) -> None:
    """Train until the run is finished; if training fails, save a checkpoint."""
    signatures = validation_signatures(run.inputs)
    with (
        StopSignals() as stop,
        show_progress("train", run.total_steps, "steps") as shown,
        closing(Journal(run.config, state, run.group.is_main, signatures)) as journal,
        closing(_steps(run, state)) as steps,
    ):
        shown.advance(state.progress.step)
        try:
            if _must_validate(run.config.training, state.progress):  # the last command ended here
                _after_step(run, state, journal, stop)
            while not is_finished(run.config.training, state.progress):
                journal.add(next(steps))
                if journal.is_note_due():
                    state.read_figures()
                    journal.write_note()
                shown.advance(note=journal.note)
                _after_step(run, state, journal, stop)
        except (DivergedError, Interrupted):
            raise
        except (MtkitError, RuntimeError, MemoryError):
            if state.progress.step:
                state.read_figures()
                run.save(state)
                # Report it now, because another failing process may end this one soon.
                say(f"train: checkpoint saved after step {state.progress.step:,}")
            raise
    _report_early_stop(run, state.progress)


def _after_step(run: TrainingRun, state: TrainState, journal: Journal, stop: StopSignals) -> None:
    """Log, validate and save, if due at this step; raise Interrupted after a stop signal."""
    training, step = run.config.training, state.progress.step
    is_due = _must_validate(training, state.progress)
    if is_due or step % training.log_every == 0:
        _check_divergence(run, state)
        journal.log_step()
    if is_due:
        _validate(run, state, journal, stop)
    stop_signal = run.group.max(stop.received)
    if is_due or stop_signal or step % training.save_every == 0:
        _check_divergence(run, state)
        run.save(state)
    if stop_signal:
        run.group.barrier()  # the checkpoint is written
        raise Interrupted(
            128 + stop_signal,
            "training was interrupted and a checkpoint saved; run the same command again to "
            "resume, or `mtkit finish` to end with the best model so far",
        )


def _check_divergence(run: TrainingRun, state: TrainState) -> None:
    """Copy the figures from the device; raise DivergedError if too many steps were skipped."""
    state.read_figures()
    progress = state.progress
    if progress.most_skipped_in_a_row < MAX_SKIPPED:
        return
    raise DivergedError(
        f"training diverged before step {progress.step:,} (epoch {progress.position.epoch}): "
        f"{progress.most_skipped_in_a_row} steps in a row were skipped, at a learning rate of "
        f"{progress.window.learning_rate:.3g}"
    )


def _validate(run: TrainingRun, state: TrainState, journal: Journal, stop: StopSignals) -> None:
    """Validate and log the result; after a stop signal there is no result."""
    with suppress(StoppedValidation):
        state.progress.validations.append(validate(run, state, stop))
        journal.log_validation()


def _must_validate(training: TrainingSettings, progress: TrainingProgress) -> bool:
    """Return whether a validation is due at this step and has not been done."""
    if progress.step in (0, *(validation.step for validation in progress.validations)):
        return False
    return progress.step % training.validate_every == 0 or is_finished(training, progress)


def _report_early_stop(run: TrainingRun, progress: TrainingProgress) -> None:
    """Report why training stopped at another step than planned."""
    training = run.config.training
    if training.steps is not None and progress.step > training.steps:
        warn(
            f"training.steps is {training.steps:,}, but this run has already made "
            f"{progress.step:,} steps"
        )
    elif progress.step < run.total_steps and is_stalled(
        progress.validations, training.best_by, training.patience
    ):
        say(
            f"train: ending after step {progress.step:,} of {run.total_steps:,}, because the last "
            f"{training.patience} validations brought no new best (training.patience)"
        )


def _steps(run: TrainingRun, state: TrainState) -> Generator[int]:
    """Make one training step after another, without end; yield the target tokens of each step.

    Raises:
        MtkitError: out of memory; `state` is as it was after the last complete step.
    """
    config, training, progress = run.config, run.config.training, state.progress
    step = partial(
        train_step, state, seed=config.seed, clip_norm=training.clip_norm, group=run.group
    )
    for data in prefetch(run.stream.steps(progress.position)):
        losses = [(validation.step, validation.loss) for validation in progress.validations]
        inputs = ScheduleInputs(training.warmup, run.total_steps, config.model.d_model, losses)
        rate = progress.rate_scale * training.schedule.rate(progress.step + 1, inputs)
        attempt = partial(step, tokens=data.tokens, rate=rate)
        # Of several processes, others may already wait for the gradients of this attempt.
        if run.group.size == 1:
            halve_if_too_large(attempt, data)
        else:
            attempt(data.batches)
        progress.position = data.position
        yield data.tokens


def halve_if_too_large(step: Callable[[Sequence[Batch]], None], data: StepData) -> None:
    """Make a step; if memory runs out, make it with every batch split in two.

    Raises:
        BatchTooLargeError: memory is not enough for the halves, either.
    """
    with suppress(BatchTooLargeError):
        return step(data.batches)
    return step(data.halved())
