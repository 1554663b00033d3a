"""The inputs of a training run, and its state at the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from mtkit.artifacts.ancestors import record_ancestors
from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.recipe import (
    batches_recipe,
    checkpoint_recipe,
    difference_in_meaning,
    model_recipe,
)
from mtkit.artifacts.replacement import recover_all
from mtkit.artifacts.runs import (
    CHECKPOINT_NAMES,
    CHECKPOINTS,
    INIT_FROM,
    WEIGHTS,
    find_base_model,
    find_origin,
    link_latest,
    locked,
    name_of_origin,
    save_config,
)
from mtkit.artifacts.stage import Stage
from mtkit.batching.build import Batches, check_settings, find_tokenizer, open_batches
from mtkit.config.base import dotted
from mtkit.config.decoding import DecodingSettings, ModelConfig
from mtkit.config.locate import flow
from mtkit.config.settings import Config, SetName
from mtkit.corpus.sets import hash_sets, open_set
from mtkit.decoding.glossary import Glossary, open_glossary
from mtkit.errors import UserError, blame_setting
from mtkit.models.acceleration import find_acceleration
from mtkit.models.device import pick_device, pick_precision
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import read_model_config, save_model_config
from mtkit.models.weights import assign_weights, build_without_weights, read_weights
from mtkit.report import plural, say, warn
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.inherited_vocabulary import find_inherited_vocabulary
from mtkit.training.agreement import check_same, check_shared
from mtkit.training.checkpoints import Checkpoints
from mtkit.training.data import Stream
from mtkit.training.process_group import ProcessGroup
from mtkit.training.state import TrainState, new_state


@dataclass(frozen=True)
class RunInputs:
    """The inputs of a training run."""

    config: Config
    data: Batches
    tokenizer: Tokenizer
    origin: Artifact | None
    """The model whose weights training starts from; None: random weights."""
    glossary: Glossary | None = None
    """The glossary that the model brings along."""

    def stage(self, kind: Literal["model", "checkpoint"], ended: int | None = None) -> Stage:
        """Return the stage of the model or of the checkpoints.

        `ended`: the step at which `mtkit finish` ends the run; None if the run ends as planned.
        Checkpoints ignore it, because they are the same however the run ends.
        """
        config, batches = self.config, self.data.artifact
        if kind == "checkpoint":
            name = CHECKPOINTS
            recipe = checkpoint_recipe(config)
        else:
            name = kind
            recipe = model_recipe(config, ended)
        identities = {
            "tokenizer": batches.manifest["inputs"]["tokenizer"],
            "batches": batches.identity,
        }
        if kind == "model":
            identities |= hash_sets(config, "keep")
        if kind == "model" and self.glossary is not None:
            identities["decoding.glossary"] = self.glossary.digest
        if self.origin:
            identities["init_from"] = self.origin.identity
        return Stage(kind, Path(config.run) / name, recipe, identities)

    def save_model_config(self, folder: Path) -> None:
        """Write all that decoding needs except weights into `folder`, which holds weights."""
        config, tokenizer = self.config, self.tokenizer
        vocabs = {"source_vocab": tokenizer.source_vocab, "target_vocab": tokenizer.target_vocab}
        decoding = config.decoding.part(DecodingSettings)
        of_model = ModelConfig(model=config.model, decoding=decoding, **vocabs)
        save_model_config(folder, of_model, tokenizer)
        if self.glossary is not None:
            self.glossary.save(folder)

    def ancestors(self) -> dict[str, Any]:
        """Return the entry in the report of the model that names the models it descends from."""
        place = self.config.training.init_from
        if place is None or self.origin is None:
            return {}
        return record_ancestors(place, self.origin)

    def initial_model(self) -> EncoderDecoder:
        """Return the model before the first step, on the CPU: the base model, or a random one."""
        config, tokenizer = self.config, self.tokenizer
        torch.manual_seed(config.seed)
        model = EncoderDecoder(config.model, tokenizer.source_vocab, tokenizer.target_vocab)
        if self.origin:
            assign_weights(model, self._read_origin(self.origin))
        return model

    def initial_state(self) -> TrainState:
        """Return the state before the first step."""
        config = self.config
        device = pick_device(config.training.device)
        model = self.initial_model()
        precision = pick_precision(config.training.precision, device)
        model.to(device)
        find_acceleration(device.type).accelerate(model)
        return new_state(model, config.training, precision)

    def _read_origin(self, origin: Artifact) -> Mapping[str, Tensor]:
        """Return the weights of the origin, with rows for the vocabulary of this run."""
        base = Tokenizer.load(origin)
        weights = self.read_base_weights(origin, base)
        vocabulary = find_inherited_vocabulary(self.config)
        return vocabulary.change_weights(weights, self.tokenizer, base)

    def read_base_weights(self, origin: Artifact, tokenizer: Tokenizer) -> dict[str, Tensor]:
        """Return the weights of the origin, whose tokenizer is given, as they are."""
        vocabs = tokenizer.source_vocab, tokenizer.target_vocab
        model = build_without_weights(self.config.model, *vocabs)
        return read_weights(origin.file(WEIGHTS), dict(model.named_parameters()))

    def stream(self, model: EncoderDecoder, group: ProcessGroup) -> Stream:
        """Return the batches of all steps; on a GPU, short sentences share a row if possible."""
        row_width = find_acceleration(model.device.type).shared_row_width(model)
        return Stream(self.config, self.data, group, row_width)


@dataclass(frozen=True)
class TrainingRun:
    """Everything that a run works with, except the state that it changes."""

    inputs: RunInputs
    group: ProcessGroup
    checkpoints: Checkpoints
    stream: Stream
    total_steps: int

    @property
    def config(self) -> Config:
        return self.inputs.config

    def save(self, state: TrainState) -> None:
        """Write a checkpoint, and remove those that are no longer needed."""
        if self.group.is_main:
            self.checkpoints.save(state)
            self.checkpoints.prune(state.progress, self.config.training, self.total_steps)


def open_inputs(config: Config) -> RunInputs:
    """Return the inputs of the training run of a config.

    Raises:
        UserError: an artifact is missing or damaged, or was made with another tokenizer.
    """
    run = Path(config.run)
    artifact = find_tokenizer(config)
    data = open_batches(run / "batches")
    if data.artifact.manifest["inputs"].get("tokenizer") != artifact.identity:
        raise UserError(f"{run / 'batches'} is encoded with another tokenizer; rerun `mtkit batch`")
    check_settings(data.artifact, batches_recipe(config))
    if changed := _find_changed_text(config, data.artifact):
        warn(f"{data.artifact.path}: {changed} has changed; rerun `mtkit batch` to use its text")
    _check_old_text(config)
    tokenizer = Tokenizer.load(artifact)
    if origin := check_origin(config):
        with blame_setting(INIT_FROM):
            if not find_inherited_vocabulary(config).fits(tokenizer, Tokenizer.load(origin)):
                raise UserError(
                    f"{name_of_origin(config, origin)} has another tokenizer than this run; rerun "
                    "`mtkit train-spm` with this setting, which copies the tokenizer of that model"
                )
    return RunInputs(config, data, tokenizer, origin, find_glossary(config))


def find_glossary(config: Config) -> Glossary | None:
    """Return the glossary that `decoding.glossary` names; None if it is not set.

    Raises:
        SettingError: the file cannot be read, or an entry is faulty.
    """
    if config.decoding.glossary is None:
        return None
    with blame_setting(("decoding", "glossary")):
        return open_glossary(Path(config.decoding.glossary))


def _check_old_text(config: Config) -> None:
    """Raise SettingError if data.keep has no pair to compare models on; training ends with that."""
    if config.data.keep is None:
        return
    with open_set(config, "keep") as rows:
        if any(not pair.blank for pair in rows):
            return
    with blame_setting(("data", "keep")):
        raise UserError("every pair is blank on a side; give text to keep, or leave it out")


def _find_changed_text(config: Config, batches: Artifact) -> str | None:
    """Return the name of the first setting whose text has changed since the batches were made."""
    texts: dict[str, str] = {}
    names: tuple[SetName, ...] = ("train", "valid")
    for name in names:
        with suppress(UserError):  # the text is not needed any more
            texts |= hash_sets(config, name)
    inputs = batches.manifest["inputs"]
    for setting, text in texts.items():
        if inputs.get(setting) != text:
            return setting
    return None


def check_origin(config: Config) -> Artifact | None:
    """Check and return the model that `training.init_from` names; return None if it is not set.

    A model of another program is imported, so that the stages find it.

    Raises:
        SettingError: the model is missing, or its weights would mean something else in this run.
    """
    if origin := find_origin(config, find_base_model):
        with blame_setting(INIT_FROM):
            _check_weights(config, origin, name_of_origin(config, origin))
    return origin


def _check_weights(config: Config, weights: Artifact, name: str) -> None:
    """Raise UserError unless the weights have the shapes and the meaning of the config's model.

    `name`: how the error names the weights.
    """
    change = difference_in_meaning(config.model, read_model_config(weights).model)
    if change is not None:
        raise UserError(
            f"{name} was trained with other settings ({change.describe()}), so its "
            f"weights would mean something else; set {dotted(change.key)} to {flow(change.before)}"
        )
    tokenizer = Tokenizer.load(weights)
    vocabs = tokenizer.source_vocab, tokenizer.target_vocab
    model = build_without_weights(config.model, *vocabs)
    read_weights(weights.file(WEIGHTS), dict(model.named_parameters()))


@contextmanager
def open_run(inputs: RunInputs, group: ProcessGroup) -> Iterator[tuple[TrainingRun, TrainState]]:
    """Lock the run, mark it as the latest run, and yield it with its newest state.

    Nothing else is written before all processes have found the same checkpoint.

    Raises:
        UserError: another process writes to the run, a checkpoint was made with other settings, or
            the processes do not share the run directory.
    """
    config, training, run = inputs.config, inputs.config.training, Path(inputs.config.run)
    checkpoints = Checkpoints(inputs.stage("checkpoint"), inputs.save_model_config, group.size)
    with ExitStack() as stack:
        with group.fail_together():
            if group.is_main:
                stack.enter_context(locked(run))
                recover_all(checkpoints.folder, CHECKPOINT_NAMES)
        state = inputs.initial_state()
        with group.fail_together():
            checkpoint = checkpoints.load_last(state)
            if checkpoint is not None and training.accumulate == "auto":
                _check_processes(checkpoint, group.size)
        check_same(group, run, {"checkpoint": checkpoint.identity if checkpoint else None})
        check_shared(group, run)
        # Processors of different kinds may draw or round random weights differently.
        group.copy_from_main(parameter.detach() for parameter in state.model.parameters())
        with group.fail_together():
            stream = inputs.stream(state.model, group)
            total_steps = stream.total_steps()
            _announce(config, state, group, checkpoint, total_steps)
            if group.is_main:
                if checkpoint is not None:  # the run may have stopped before it removed old ones
                    checkpoints.prune(state.progress, training, total_steps)
                save_config(config)
                link_latest(run)
        yield TrainingRun(inputs, group, checkpoints, stream, total_steps), state
        group.barrier()


def _check_processes(checkpoint: Artifact, count: int) -> None:
    """Raise UserError unless as many processes train as when the checkpoint was saved."""
    before = checkpoint.report["processes"]
    if before != count:
        raise UserError(
            f"{checkpoint.path} was saved with other settings (training.accumulate: auto was "
            f"{plural(before, 'batch')} per step, now {count}); resume with "
            f"{plural(before, 'process')} (training.ranks), or train in another run directory "
            "(--run)"
        )


def _announce(
    config: Config,
    state: TrainState,
    group: ProcessGroup,
    checkpoint: Artifact | None,
    total_steps: int,
) -> None:
    progress, device = state.progress, state.model.device
    parameters = sum(parameter.numel() for parameter in state.model.parameters())
    where = f"{group.size} processes on {device}" if group.size > 1 else f"{device}"
    say(f"train: {config.model.kind}, {parameters:,} parameters, {progress.precision} on {where}")
    if checkpoint is not None:
        say(f"train: resuming after step {progress.step:,} of {total_steps:,}")
        if (before := checkpoint.report.get("processes", 1)) != group.size:
            now = plural(group.size, "process")
            say(f"train: training with {now} instead of {before}, so rounding will differ")
