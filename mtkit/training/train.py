"""Stage 3: the wiring of a run, and the plain loop that logs, validates, saves and stops."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from mtkit.artifacts import Artifact, clear_leftovers, open_artifact
from mtkit.batching.build import Batches, open_batches
from mtkit.config.configfile import save_config
from mtkit.config.recipes import ModelRecipe, find_current
from mtkit.config.runs import LATEST, find_model, locked
from mtkit.config.settings import Config
from mtkit.errors import MtkitError, UserError
from mtkit.models.build import build_model
from mtkit.models.device import pick_device
from mtkit.report import progress, say, set_quiet, warn
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.data.segmentation import Segmentation, segmentation_of
from mtkit.training.data.updates import updates_per_epoch
from mtkit.training.optimizer.precision import pick_precision
from mtkit.training.run.checkpoints import Checkpoints
from mtkit.training.run.compiling import repays_compiling
from mtkit.training.run.distributed import Ranks, connected_ranks
from mtkit.training.run.export import initialise_from, write_model
from mtkit.training.run.history import Validation, is_stalled
from mtkit.training.run.interrupt import StopSignal, interrupted_by
from mtkit.training.run.journal import Journal
from mtkit.training.run.memory import largest_batch
from mtkit.training.run.validate import Validator
from mtkit.training.state import TrainState, new_state
from mtkit.training.step import Diverged, StepReport, settle, train_steps

LOWEST_SCALE = 1 / 64
"""Of the learning rate, below which going back once more is of no use."""


@dataclass(frozen=True)
class Job:
    """What the loop works with, apart from the state that it changes."""

    config: Config
    data: Batches
    checkpoints: Checkpoints
    validator: Validator
    segmentation: Segmentation
    total_steps: int
    ranks: Ranks


def train(config: Config) -> Artifact:
    """Trains `config.model` on the run's batches, from its last checkpoint if it has one.

    Under torchrun, on all of its ranks at once. Returns the model artifact. Raises UserError where
    an earlier stage is missing or a checkpoint is of other settings; with the checkpoint saved,
    Interrupted after Ctrl-C or SIGTERM and MtkitError where memory, or a rank, is lost.
    """
    run = Path(config.run)
    tokenizer = open_artifact(run / "tokenizer", "tokenizer", verify=True)
    data = open_batches(run / "batches")
    if data.artifact.manifest["inputs"].get("tokenizer") != tokenizer.identity:
        raise UserError(f"{run / 'batches'}: encoded with another tokenizer: rerun `mtkit batch`")
    inputs = {"tokenizer": tokenizer.identity, "batches": data.artifact.identity}
    if config.training.init_from is not None:
        inputs["init_from"] = find_model(config.training.init_from).identity
    device = pick_device(config.training.device)
    with connected_ranks(device, config.training.rank_timeout) as ranks:
        recipe = ModelRecipe.of(config, ranks.count)
        model = find_current(run / "model", "model", recipe, inputs)
        if model is not None:
            say(f"train: {run / 'model'} is up to date")
        else:
            if not ranks.is_first:
                set_quiet(True)
            with locked(run) if ranks.is_first else nullcontext():
                _train(config, data, Tokenizer.load(tokenizer.path), ranks, recipe, inputs)
            model = open_artifact(run / "model", "model")
        if ranks.is_first:
            _link_latest(run)
    return model


def _train(
    config: Config,
    data: Batches,
    tokenizer: Tokenizer,
    ranks: Ranks,
    recipe: ModelRecipe,
    inputs: Mapping[str, str],
) -> None:
    run, training = Path(config.run), config.training
    state = fresh_state(config, tokenizer, ranks)
    checkpoints = Checkpoints(run / "checkpoints", recipe.of_checkpoints(), inputs)
    if ranks.is_first:
        clear_leftovers(checkpoints.folder)
    ranks.wait()
    resumed = checkpoints.load_last(state)
    if ranks.is_first:
        save_config(config)
    if ranks.count > 1:
        settle(state, config, ranks)
    if not state.max_tokens:
        state.max_tokens = largest_batch(state, data.train.lengths, ranks)
    _announce(config, state, ranks, resumed=resumed)
    validator = Validator(config, data, tokenizer, state.precision, state.max_tokens)
    segmentation = segmentation_of(config, tokenizer)
    total = training.steps or (training.epochs or 0) * updates_per_epoch(
        state, data, config, segmentation, ranks
    )
    job = Job(config, data, checkpoints, validator, segmentation, total, ranks)
    if repays_compiling(training.compile, state.model.output_weight.device, total - state.step):
        state.model.compile(dynamic=True)
    while True:
        try:
            _go_on(job, state)
            break
        except Diverged as divergence:
            _roll_back(job, state, divergence)
    if ranks.is_first:
        write_model(run / "model", state, checkpoints, validator, recipe.without_defaults(), inputs)
    ranks.wait()


def fresh_state(config: Config, tokenizer: Tokenizer, ranks: Ranks) -> TrainState:
    """The state before the first update: the model initialised, or taken from another."""
    training = config.training
    device = pick_device(training.device)
    torch.manual_seed(config.seed)
    model = build_model(config.model, tokenizer.source_vocab, tokenizer.target_vocab)
    if training.init_from is not None:
        initialise_from(training.init_from, model, tokenizer)
    return new_state(model.to(device), config, pick_precision(training.precision, device), ranks)


def _go_on(job: Job, state: TrainState) -> None:
    """From where `state` stands to the end of the run."""
    run, training = Path(job.config.run), job.config.training
    with (
        Journal(run, state, job.ranks, tensorboard=training.tensorboard) as journal,
        StopSignal() as stop,
        progress("train", job.total_steps, "steps") as shown,
        closing(_steps(job, state)) as steps,
    ):
        shown.advance(state.step)
        if job.checkpoints.steps():
            _prune(job, state)  # which the process that saved it may not have come to
        else:
            _save(job, state)  # to go back to
        while not _is_finished(job.config, state):
            with _saved_on_failure(job, state):
                journal.add(next(steps))
                signal_number = job.ranks.max(stop.received)
            shown.advance(note=journal.note)
            at_end = _is_finished(job.config, state)
            validate = state.step % training.validate_every == 0 or at_end
            if state.step % training.log_every == 0 or validate:
                journal.log_step()
            if validate:
                _validate(job, state, journal)
            if state.step % training.save_every == 0 or validate or signal_number:
                _save(job, state)
            if signal_number:
                raise interrupted_by(signal_number)
        if not state.validations:  # an interrupted run, of which fewer steps are asked for now
            _validate(job, state, journal)
            _save(job, state)


def _steps(job: Job, state: TrainState) -> Generator[StepReport]:
    return train_steps(state, job.data, job.config, job.total_steps, job.segmentation, job.ranks)


@contextmanager
def _saved_on_failure(job: Job, state: TrainState) -> Iterator[None]:
    """Around an update: if it fails, the state is that after the one before, and is kept."""
    try:
        yield
    except Diverged:
        raise
    except (MtkitError, RuntimeError, MemoryError) as error:
        if state.step not in job.checkpoints.steps():
            _save(job, state)
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
    scores = None
    if job.ranks.is_first:
        scores = vars(job.validator(state.model, state.weights(), state.step))
    state.validations.append(Validation(**job.ranks.share(scores)))
    journal.log_validation(state.validations[-1], job.config.training.best_by)


def _save(job: Job, state: TrainState) -> None:
    if job.ranks.is_first:
        job.checkpoints.save(state)
    _prune(job, state)


def _prune(job: Job, state: TrainState) -> None:
    training = job.config.training
    if job.ranks.is_first:
        job.checkpoints.prune(state, training.best_by, training.keep, training.average)


def _announce(config: Config, state: TrainState, ranks: Ranks, *, resumed: bool) -> None:
    parameters = sum(parameter.numel() for parameter in state.model.parameters())
    device = state.model.output_weight.device
    on = f"{ranks.count} ranks of {device}" if ranks.count > 1 else f"{device}"
    say(f"train: {config.model.name}, {parameters:,} parameters, {state.precision} on {on}")
    if config.batching.max_tokens == "auto":
        say(f"train: batches of {state.max_tokens:,} tokens")
    if resumed:
        say(f"train: resuming after step {state.step:,}")


def _is_finished(config: Config, state: TrainState) -> bool:
    training = config.training
    if training.epochs is not None and state.epoch >= training.epochs:
        return True
    if training.steps is not None and state.step >= training.steps:
        return True
    return is_stalled(state.validations, training.best_by, training.patience)


def _link_latest(run: Path) -> None:
    """Names the run as the one that `mtkit translate` takes by default in this directory."""
    if LATEST.is_symlink():
        if LATEST.resolve() == run.resolve():
            return
        LATEST.unlink()
    if LATEST.exists():
        warn(f"{LATEST} is no symlink: left alone; name the model with -m")
        return
    LATEST.parent.mkdir(exist_ok=True)
    LATEST.symlink_to(os.path.relpath(run, LATEST.parent))
