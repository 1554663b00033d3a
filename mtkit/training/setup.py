"""What a run is put together from, and the state where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from mtkit.artifacts.explain import changed_files, origin_of
from mtkit.artifacts.manifest import Artifact, clear_leftovers, open_artifact, remove
from mtkit.artifacts.recipe import checkpoint_recipe, model_recipe
from mtkit.artifacts.runs import (
    CHECKPOINTS,
    INIT_FROM,
    WEIGHTS,
    checkpoint_steps,
    find_origin,
    link_latest,
    locked,
    save_config,
)
from mtkit.artifacts.stage import Stage
from mtkit.batching.build import Batches, check_settings, open_batches
from mtkit.config.decoding import ModelConfig
from mtkit.config.settings import Config
from mtkit.corpus.read import files_of
from mtkit.errors import UserError, blame_setting
from mtkit.models.device import pick_device, pick_precision
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import save_model_config
from mtkit.models.weights import build_without_weights, load_weights, read_weights
from mtkit.report import say, warn
from mtkit.scoring.metrics import get_signatures
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.checkpoints import Checkpoints
from mtkit.training.data import Segmentation, Stream
from mtkit.training.loss import Objective
from mtkit.training.memory import largest_batch
from mtkit.training.metrics import MetricsLog
from mtkit.training.process_group import ProcessGroup
from mtkit.training.state import TrainState, new_state
from mtkit.training.step import warm_up_ddp

REPAYING_STEPS = 2_000
"""Number of updates that must be left: compiling for all shapes costs a minute or two, a GPU makes
some ten updates a second, and a third of their time is saved at best.
"""


@dataclass(frozen=True)
class Job:
    """What a run works with, apart from the state that it changes."""

    config: Config
    data: Batches
    tokenizer: Tokenizer
    group: ProcessGroup
    checkpoints: Checkpoints
    stream: Stream
    total_steps: int

    def make_current(self) -> None:
        """The run has these settings from now on, and is the last one of this directory."""
        if self.group.is_main:
            save_config(self.config)
            link_latest(Path(self.config.run))

    def save(self, state: TrainState, *, again: bool = True) -> None:
        """Writes a checkpoint, `again` where there is one, and drops those no longer wanted."""
        if self.group.is_main:
            if again or state.step not in self.checkpoints.steps():
                self.checkpoints.save(state)
            of = self.config.training
            self.checkpoints.prune(state, of.best_by, of.keep, of.average, self.total_steps)


def sources_of(config: Config) -> tuple[Batches, Tokenizer, dict[str, str]]:
    """What a run is made from, and the identity of each part.

    Raises UserError where a part is missing, damaged, or does not belong to the others.
    """
    run = Path(config.run)
    tokenizer = open_artifact(run / "tokenizer", "tokenizer", verify=True)
    data = open_batches(run / "batches")
    if data.artifact.manifest["inputs"].get("tokenizer") != tokenizer.identity:
        raise UserError(f"{run / 'batches'}: encoded with another tokenizer: rerun `mtkit batch`")
    check_settings(data.artifact, config)
    texts = config.data
    files = files_of(texts.train, "data.train") | files_of(texts.valid, "data.valid")
    if difference := changed_files(data.artifact, files):
        warn(f"{data.artifact.path}: {difference}, which only `mtkit batch` takes in")
    inputs = {"tokenizer": tokenizer.identity, "batches": data.artifact.identity}
    ours = Tokenizer.load(tokenizer.path)
    if origin := check_origin(config):
        inputs["init_from"] = origin.identity
        with blame_setting(INIT_FROM):
            if Tokenizer.load(origin.path).models != ours.models:
                raise UserError(
                    f"{origin.path} has another tokenizer than this run: `mtkit train-spm` with "
                    "this setting takes over the model's"
                )
    _check_comparable(config)
    return data, ours, inputs


def check_origin(config: Config) -> Artifact | None:
    """The model that `training.init_from` names; None where it names none.

    Raises SettingError where it is not there, or of another shape than this run's will be.
    """
    if found := find_origin(config):
        with blame_setting(INIT_FROM):
            its = Tokenizer.load(found.path)
            model = build_without_weights(config.model, its.source_vocab, its.target_vocab)
            read_weights(found.path / WEIGHTS, dict(model.named_parameters()))
    return found


def _check_comparable(config: Config) -> None:
    """UserError where BLEU would be counted otherwise than in the validations so far."""
    language = config.data.target_language
    if not any(checkpoint_steps(Path(config.run) / CHECKPOINTS)):
        return  # it begins anew
    for record in MetricsLog(Path(config.run)).read():
        match record:
            case {"signatures": {"bleu": str(before)}}:
                was, now = map(_counting, (before, get_signatures(language)["bleu"]))
                if was != now:
                    raise UserError(
                        f"data.target_language: {language}: BLEU of this run's validations was "
                        f"counted with {was}, and would be with {now}, which cannot be compared: "
                        "go back to the former language, or train anew in another folder (--run)"
                    )


def _counting(signature: str) -> str:
    """A signature but for the version of sacreBLEU."""
    return "|".join(part for part in signature.split("|") if not part.startswith("version:"))


def model_stage(
    config: Config, data: Batches, inputs: Mapping[str, str], ended: int | None = None
) -> Stage:
    """Return the stage of RUN/model; `ended` is the step at which `mtkit finish` ends the run."""
    recipe, path = model_recipe(config, ended), Path(config.run) / "model"
    return Stage("model", path, recipe, inputs, origin_of(data.artifact))


@contextmanager
def opened_job(
    config: Config,
    data: Batches,
    tokenizer: Tokenizer,
    inputs: Mapping[str, str],
    group: ProcessGroup,
) -> Iterator[tuple[Job, TrainState]]:
    """A job and the state where it stands: fresh, or as its last checkpoint has it.

    While it is open, no other process writes to the run. Raises UserError where one does, and for
    a checkpoint of other settings.
    """
    run, training = Path(config.run), config.training
    card = partial(save_model_config, config=card_of(config, tokenizer), tokenizer=tokenizer)
    sources = origin_of(data.artifact)
    stage = Stage("checkpoint", run / CHECKPOINTS, checkpoint_recipe(config), inputs, sources)
    checkpoints = Checkpoints(stage, card, group.size)
    with locked(run) if group.is_main else nullcontext():
        state = fresh_state(config, tokenizer, group)
        if group.is_main:
            clear_leftovers(checkpoints.folder)
        group.barrier()
        resumed_from = checkpoints.load_last(state)
        if group.size > 1:
            warm_up_ddp(state, group)
        if resumed_from is None and group.is_main:
            remove(checkpoints.path(0))  # of other settings, if there is one: nothing to go back to
        if not state.max_tokens:
            state.max_tokens = largest_batch(state, data, training.accumulate, group)
        _announce(config, state, group, resumed_from)
        stream = Stream(config, data, Segmentation.of(config, tokenizer), state.max_tokens, group)
        total = training.steps or (training.epochs or 0) * stream.updates_per_epoch()
        device = state.model.device
        if repays_compiling(training.compile, device, total):
            state.model.compile(dynamic=True)
        yield Job(config, data, tokenizer, group, checkpoints, stream, total), state
        group.barrier()


def card_of(config: Config, tokenizer: Tokenizer) -> ModelConfig:
    """What a model of this run is decoded by."""
    vocabs = {"source_vocab": tokenizer.source_vocab, "target_vocab": tokenizer.target_vocab}
    return ModelConfig(model=config.model, decoding=config.decoding, **vocabs)


def fresh_state(config: Config, tokenizer: Tokenizer, group: ProcessGroup) -> TrainState:
    """The state before the first update: the model initialised, or taken from another.

    Raises UserError where the updates are to be compiled for a CPU: they take half as long again
    there, and dropout is made by operators that a compiler does not know.
    """
    training = config.training
    device = pick_device(training.device)
    if training.compile is True and device.type == "cpu":
        raise UserError("training.compile: slower than not on a CPU: leave it out, or take a GPU")
    torch.manual_seed(config.seed)
    model = EncoderDecoder(config.model, tokenizer.source_vocab, tokenizer.target_vocab)
    if origin := find_origin(config):
        load_weights(model, origin.path / WEIGHTS)
    precision = pick_precision(training.precision, device)
    objective = Objective(model.to(device), training.label_smoothing)
    state = new_state(objective, training.optimizer, precision, group)
    if config.batching.max_tokens != "auto":
        state.max_tokens = config.batching.max_tokens
    return state


def repays_compiling(wanted: bool | Literal["auto"], device: torch.device, steps: int) -> bool:
    """Whether torch.compile repays the minutes that it takes.

    `auto`: on a GPU, in a run of enough steps; what is left of them changes no bits.
    """
    if wanted == "auto":
        return device.type == "cuda" and steps >= REPAYING_STEPS
    return wanted


def _announce(
    config: Config, state: TrainState, group: ProcessGroup, resumed_from: Artifact | None
) -> None:
    parameters = sum(parameter.numel() for parameter in state.model.parameters())
    device = state.model.device
    on = f"{group.size} processes on {device}" if group.size > 1 else f"{device}"
    say(f"train: {config.model.name}, {parameters:,} parameters, {state.precision} on {on}")
    if config.batching.max_tokens == "auto":
        say(f"train: batches of {state.max_tokens:,} tokens")
    if resumed_from is not None:
        say(f"train: resuming after step {state.step:,}")
        if (before := resumed_from.report.get("processes", 1)) != group.size:
            say(f"train: {before} processes so far, {group.size} from here: rounding will differ")
