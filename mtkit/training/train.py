"""Stage 3: the plain loop that makes updates, logs, validates, saves and stops."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import CHECKPOINTS, checkpoint_steps, link_latest
from mtkit.artifacts.stage import Stage
from mtkit.config.schedules import ScheduleInputs
from mtkit.config.settings import Config, TrainingSettings
from mtkit.errors import Interrupted, MtkitError, UserError
from mtkit.models.device import pick_device
from mtkit.prefetch import prefetch
from mtkit.progress import progress
from mtkit.report import say, warn
from mtkit.signals import StopSignals
from mtkit.training.journal import Journal
from mtkit.training.memory import TRIM_EVERY_STEPS, halve_if_too_large, trim_heap
from mtkit.training.process_group import SINGLE_PROCESS, connect_processes
from mtkit.training.processes import count_processes, start_processes
from mtkit.training.setup import Job, model_stage, opened_job, sources_of
from mtkit.training.state import StepReport, TrainState, is_stalled
from mtkit.training.step import train_step
from mtkit.training.validate import validate, write_model

LOWEST_SCALE = 1 / 64
"""The least that the learning rate is scaled down to: going back again would be of no use."""


class Diverged(MtkitError):  # noqa: N818 - it says what happened
    """Too many updates in a row had to be skipped."""


def train(config: Config) -> Artifact:
    """Trains `config.model` on the run's batches, from its last checkpoint if it has one.

    On as many group as pay, which it starts, or on those that it was started as. Returns the model
    artifact. Raises UserError where an earlier stage is missing or a checkpoint is of other
    settings; with the checkpoint saved, Interrupted after one of SIGNALS and MtkitError where
    memory, or a rank, is lost.
    """
    run, training = Path(config.run), config.training
    data, tokenizer, inputs = sources_of(config)
    stage = model_stage(config, data, inputs)
    current = stage.current()
    if not current and (count := count_processes(config, tokenizer)) > 1:
        start_processes(train, count, config)
        return stage.open()
    with connect_processes(pick_device(training.device), training.rank_timeout) as group:
        if current:
            say(f"train: {stage.path} is up to date with its batches")
            if group.is_main:
                link_latest(run)
        else:
            if group.is_main:
                stage.explain_rebuild()
            with opened_job(config, data, tokenizer, inputs, group) as (job, state):
                job.make_current()
                _run_to_end(job, state, stage)
    return stage.open()


def _run_to_end(job: Job, state: TrainState, stage: Stage) -> None:
    """From where `state` stands to the model.

    Where training diverges, back to the last checkpoint, to go on with half the learning rate.
    """
    while True:
        try:
            _go_on(job, state)
            break
        except Diverged as divergence:
            scale = state.rate_scale / 2
            if job.config.training.on_divergence == "stop" or scale < LOWEST_SCALE:
                raise
            if job.checkpoints.load_last(state, steady=True) is None:
                raise
            job.group.barrier()  # until all have read it
            if job.group.is_main:
                job.checkpoints.forget(state.step)
            state.rate_scale, state.skipped_in_a_row = scale, 0
            back = f"going back to step {state.step:,}, with {scale:g} of the learning rate"
            warn(f"{divergence}: {back}")
    job.group.barrier()  # until the last checkpoint is there
    write_model(job, state, stage)


def finish(config: Config) -> Artifact:
    """Ends a run where it stands: its model is made of what there is, without another update.

    Validation and averaging are those of a run that ends by itself, in this process alone. The
    checkpoints stay as they are: `train` goes on from them as if nothing had happened, and replaces
    the model when it ends.
    Raises UserError as `train`, and where no update is made yet.
    """
    data, tokenizer, inputs = sources_of(config)
    last = checkpoint_steps(Path(config.run) / CHECKPOINTS)[-1:]
    for step in (None, *last):
        if model := model_stage(config, data, inputs, ended=step).current():
            say(f"train: {model.path} is up to date with its batches")
            return model
    with opened_job(config, data, tokenizer, inputs, SINGLE_PROCESS) as (job, state):
        if not state.step:
            raise UserError(f"{config.run}: no update is made yet: train with `mtkit train`")
        job.make_current()
        say(f"train: ending after step {state.step:,} of {job.total_steps:,}")
        if state.step not in [validation.step for validation in state.validations]:
            state.validations.append(validate(job, state))
        stage = model_stage(config, data, inputs, ended=state.step)
        write_model(job, state, stage)
    return stage.open()


def _go_on(job: Job, state: TrainState) -> None:
    """The loop: updates from where `state` stands, until enough are made or one diverges."""
    training = job.config.training
    with (
        StopSignals() as stop,
        progress("train", job.total_steps, "steps") as shown,
        closing(Journal(job, state)) as journal,
        closing(_updates(job, state)) as updates,
    ):
        job.save(state, again=False)
        shown.advance(state.step)
        if _is_to_validate(training, state):  # where that failed, or fewer steps are asked for now
            _validate(job, state, journal)
            job.save(state)
        while not _is_finished(training, state):
            with _saved_on_failure(job, state):
                journal.add(next(updates))
            shown.advance(note=journal.note)
            is_due = _is_to_validate(training, state)
            if state.step % training.log_every == 0 or is_due:
                journal.log_step()
            if is_due:
                _validate(job, state, journal)
            with _saved_on_failure(job, state):
                signal_number = job.group.max(stop.received)
            if state.step % training.save_every == 0 or is_due or signal_number:
                job.save(state)
            if signal_number:
                job.group.barrier()  # until it is there
                raise Interrupted(
                    128 + signal_number,
                    "training interrupted, checkpoint saved: run the same command again to go on, "
                    "or `mtkit finish` to end with the best so far",
                )
        _tell_why(job, state)


def _is_to_validate(training: TrainingSettings, state: TrainState) -> bool:
    """Whether the state is one that is validated, and is not yet."""
    is_due = state.step % training.validate_every == 0 or _is_finished(training, state)
    return is_due and state.step not in (0, *(found.step for found in state.validations))


def _validate(job: Job, state: TrainState, journal: Journal) -> None:
    with _saved_on_failure(job, state):
        state.validations.append(validate(job, state))
    journal.log_validation()


def _tell_why(job: Job, state: TrainState) -> None:
    """Says why a run ends that has not made just as many updates as are asked for."""
    training = job.config.training
    if training.steps is not None and state.step > training.steps:
        warn(f"training.steps: {training.steps:,}: {state.step:,} are made, and make the model")
    elif state.step < job.total_steps and is_stalled(
        state.validations, training.best_by, training.patience
    ):
        say(
            f"train: no new best in {training.patience} validations (training.patience): "
            f"ending after step {state.step:,} of {job.total_steps:,}"
        )


def _updates(job: Job, state: TrainState) -> Generator[StepReport]:
    """Updates `state` without end, from where it stands; whoever loops over it decides to stop.

    Raises Diverged, and MtkitError where memory does not suffice; `state` is then that after the
    last update.
    """
    config, training, group = job.config, job.config.training, job.group
    device = state.model.device
    step = partial(train_step, state, seed=config.seed, clip_norm=training.clip_norm, group=group)
    for update in prefetch(job.stream.updates(state.position)):
        batches = [batch.to(device) for batch in update.batches]
        losses = [(validation.step, validation.loss) for validation in state.validations]
        inputs = ScheduleInputs(training.warmup, job.total_steps, config.model.d_model, losses)
        rate = state.rate_scale * training.schedule.rate(state.step + 1, inputs)
        # Processes wait for each other's gradients: all must make equally many micro-batches.
        report = halve_if_too_large(step, batches, rate) if group.size == 1 else step(batches, rate)
        state.position = update.position
        if state.step % TRIM_EVERY_STEPS == 0:
            trim_heap()
        if state.skipped_in_a_row >= training.max_skipped:
            raise Diverged(
                f"training diverged at step {state.step} (epoch {state.position.epoch}): loss "
                f"{report.nll / report.tokens:.3g}, gradient norm {report.gradient_norm:.3g}, "
                f"learning rate {rate:.3g}; {training.max_skipped} updates in a row skipped"
            )
        yield report


@contextmanager
def _saved_on_failure(job: Job, state: TrainState) -> Iterator[None]:
    """Around an update: if it fails, the state is that after the one before, and is kept."""
    try:
        yield
    except Diverged:
        raise
    except (MtkitError, RuntimeError, MemoryError):
        job.save(state, again=False)
        # At once: whoever starts the ranks may end this one before it comes to its last line.
        say(f"train: checkpoint saved after step {state.step:,}")
        raise


def _is_finished(training: TrainingSettings, state: TrainState) -> bool:
    if training.epochs is not None and state.position.epoch >= training.epochs:
        return True
    if training.steps is not None and state.step >= training.steps:
        return True
    return is_stalled(state.validations, training.best_by, training.patience)
