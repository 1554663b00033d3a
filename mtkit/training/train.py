"""Stage 3: the plain loop that makes updates, logs, validates, saves and stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mtkit.artifacts import Artifact, open_artifact
from mtkit.batching.build import open_batches
from mtkit.config.recipes import ModelRecipe
from mtkit.config.runs import find_current, find_model, link_latest
from mtkit.config.settings import Config, TrainingSettings
from mtkit.errors import MtkitError, UserError
from mtkit.models.device import pick_device
from mtkit.report import progress, say, warn
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.job import Job, opened_job
from mtkit.training.run.distributed import connected_ranks
from mtkit.training.run.history import Validation, is_stalled
from mtkit.training.run.interrupt import StopSignal, interrupted_by
from mtkit.training.run.journal import Journal
from mtkit.training.state import TrainState
from mtkit.training.step import Diverged

LOWEST_SCALE = 1 / 64
"""The least that the learning rate is scaled down to: going back again would be of no use."""


def train(config: Config) -> Artifact:
    """Trains `config.model` on the run's batches, from its last checkpoint if it has one.

    Under torchrun, on all of its ranks at once. Returns the model artifact. Raises UserError where
    an earlier stage is missing or a checkpoint is of other settings; with the checkpoint saved,
    Interrupted after Ctrl-C or SIGTERM and MtkitError where memory, or a rank, is lost.
    """
    run, training = Path(config.run), config.training
    tokenizer = open_artifact(run / "tokenizer", "tokenizer", verify=True)
    data = open_batches(run / "batches")
    if data.artifact.manifest["inputs"].get("tokenizer") != tokenizer.identity:
        raise UserError(f"{run / 'batches'}: encoded with another tokenizer: rerun `mtkit batch`")
    inputs = {"tokenizer": tokenizer.identity, "batches": data.artifact.identity}
    if training.init_from is not None:
        inputs["init_from"] = find_model(training.init_from).identity
    with connected_ranks(pick_device(training.device), training.rank_timeout) as ranks:
        recipe = ModelRecipe.of(config, ranks.count)
        if find_current(run / "model", "model", recipe, inputs):
            say(f"train: {run / 'model'} is up to date")
        else:
            loaded = Tokenizer.load(tokenizer.path)
            with opened_job(config, data, loaded, inputs, ranks) as (job, state):
                _run_to_end(job, state)
        if ranks.index == 0:
            link_latest(run)
    return open_artifact(run / "model", "model")


def _run_to_end(job: Job, state: TrainState) -> None:
    """From where `state` stands to the model; back to a checkpoint where training diverges."""
    while True:
        try:
            _go_on(job, state)
            break
        except Diverged as divergence:
            _roll_back(job, state, divergence)
    job.writer.finish(state, job.validator)


def _go_on(job: Job, state: TrainState) -> None:
    """The loop: updates from where `state` stands, until enough are made or one diverges."""
    training = job.config.training
    job.writer.start(state)
    journal = Journal(state, job.writer)
    with (
        StopSignal() as stop,
        progress("train", job.total_steps, "steps") as shown,
        closing(job.steps(state)) as steps,
    ):
        shown.advance(state.step)
        while not _is_finished(training, state):
            with _saved_on_failure(job, state):
                journal.add(next(steps))
                signal_number = job.ranks.max(stop.received)
            shown.advance(note=journal.note)
            validate = state.step % training.validate_every == 0 or _is_finished(training, state)
            if state.step % training.log_every == 0 or validate:
                journal.log_step()
            if validate:
                _validate(job, state, journal)
            if state.step % training.save_every == 0 or validate or signal_number:
                job.writer.save(state)
            if signal_number:
                raise interrupted_by(signal_number)
        if not state.validations:  # an interrupted run, of which fewer steps are asked for now
            _validate(job, state, journal)
            job.writer.save(state)


@contextmanager
def _saved_on_failure(job: Job, state: TrainState) -> Iterator[None]:
    """Around an update: if it fails, the state is that after the one before, and is kept."""
    try:
        yield
    except Diverged:
        raise
    except (MtkitError, RuntimeError, MemoryError) as error:
        job.writer.save_if_new(state)
        # At once: whoever starts the ranks may end this one before it comes to its last line.
        say(f"train: checkpoint saved after step {state.step:,}")
        if job.ranks.count == 1 or isinstance(error, MtkitError):
            raise
        reason = str(error).splitlines()[0]
        raise MtkitError(
            f"a rank was lost after step {state.step:,}: run the same command again to go on "
            f"({reason})"
        ) from error


def _roll_back(job: Job, state: TrainState, divergence: Diverged) -> None:
    """Back to the last checkpoint, to go on from there with half the learning rate."""
    scale = state.rate_scale / 2
    if job.config.training.on_divergence == "stop" or scale < LOWEST_SCALE:
        raise divergence
    job.checkpoints.load_last(state)
    state.rate_scale, state.skipped_in_a_row = scale, 0
    warn(f"{divergence}: going back to step {state.step:,}, with {scale:g} of the learning rate")


def _validate(job: Job, state: TrainState, journal: Journal) -> None:
    """On the first rank; all of them stop early, or lower the rate, by what it found."""
    scores = job.ranks.of_first(
        lambda: vars(job.validator(state.model, state.weights(), state.step))
    )
    state.validations.append(Validation(**scores))
    journal.log_validation(state.validations[-1], job.config.training.best_by)


def _is_finished(training: TrainingSettings, state: TrainState) -> bool:
    if training.epochs is not None and state.position.epoch >= training.epochs:
        return True
    if training.steps is not None and state.step >= training.steps:
        return True
    return is_stalled(state.validations, training.best_by, training.patience)
