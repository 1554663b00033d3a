"""What a run is put together from: its state, data, validation, and all that it writes to."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from mtkit.batching.build import Batches
from mtkit.config.recipes import ModelRecipe
from mtkit.config.settings import Config
from mtkit.models.device import pick_device
from mtkit.models.encoder_decoder import TranslationModel
from mtkit.report import say
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.data.segmentation import segmentation_of
from mtkit.training.data.updates import Stream
from mtkit.training.optimizer.precision import pick_precision
from mtkit.training.optimizer.schedule import learning_rate
from mtkit.training.run.checkpoints import Checkpoints
from mtkit.training.run.compiling import repays_compiling
from mtkit.training.run.distributed import Ranks
from mtkit.training.run.export import initialise_from
from mtkit.training.run.history import Validation
from mtkit.training.run.memory import largest_batch
from mtkit.training.run.validate import Validator
from mtkit.training.run.writer import RunWriter, Writer
from mtkit.training.state import TrainState, new_state
from mtkit.training.step import StepReport, settle, train_steps


@dataclass(frozen=True)
class Job:
    """What the loop works with, apart from the state that it changes."""

    config: Config
    stream: Stream
    checkpoints: Checkpoints
    validator: Validator
    writer: Writer
    total_steps: int
    ranks: Ranks

    def steps(self, state: TrainState) -> Generator[StepReport]:
        """Updates of `state` from where it stands, without end."""
        updates = self.stream.updates(state.position)
        training = self.config.training
        return train_steps(state, updates, training, self._rate, self.config.seed, self.ranks)

    def _rate(self, step: int, validations: Sequence[Validation]) -> float:
        training = self.config.training
        return learning_rate(
            step,
            schedule=training.schedule,
            warmup=training.warmup,
            d_model=self.config.model.d_model,
            total_steps=self.total_steps,
            losses=[(validation.step, validation.loss) for validation in validations],
        )


@contextmanager
def opened_job(
    config: Config, data: Batches, tokenizer: Tokenizer, inputs: Mapping[str, str], ranks: Ranks
) -> Iterator[tuple[Job, TrainState]]:
    """A job and the state where it stands: fresh, or as its last checkpoint has it.

    While it is open, no other process writes to the run. Raises UserError where one does, and for
    a checkpoint of other settings.
    """
    run, training = Path(config.run), config.training
    recipe = ModelRecipe.of(config, ranks.count)
    checkpoints = Checkpoints(run / "checkpoints", recipe.of_checkpoints(), inputs)
    with RunWriter(config, recipe, checkpoints) if ranks.index == 0 else Writer() as writer:
        state = fresh_state(config, tokenizer, ranks)
        writer.clear()
        ranks.wait()
        resumed = checkpoints.load_last(state)
        writer.accept()
        if ranks.count > 1:
            settle(state, ranks)
        if not state.max_tokens:
            state.max_tokens = largest_batch(state, data.train.lengths, ranks)
        _announce(config, state, ranks, resumed=resumed)
        stream = _stream(config, data, tokenizer, state.max_tokens, ranks)
        validator = _validator(config, data, tokenizer, state)
        total = training.steps or (training.epochs or 0) * stream.updates_per_epoch()
        device = state.model.output_weight.device
        if repays_compiling(training.compile, device, total - state.step):
            state.model.compile(dynamic=True)
        yield Job(config, stream, checkpoints, validator, writer, total, ranks), state
        ranks.wait()


def fresh_state(config: Config, tokenizer: Tokenizer, ranks: Ranks) -> TrainState:
    """The state before the first update: the model initialised, or taken from another."""
    training = config.training
    device = pick_device(training.device)
    torch.manual_seed(config.seed)
    model = TranslationModel(config.model, tokenizer.source_vocab, tokenizer.target_vocab)
    if training.init_from is not None:
        initialise_from(training.init_from, model, tokenizer)
    precision = pick_precision(training.precision, device)
    state = new_state(model.to(device), training, precision, ranks)
    if config.batching.max_tokens != "auto":
        state.max_tokens = config.batching.max_tokens
    return state


def _stream(
    config: Config, data: Batches, tokenizer: Tokenizer, max_tokens: int, ranks: Ranks
) -> Stream:
    segmentation = segmentation_of(
        config.training.subword_sampling,
        tokenizer,
        longest=config.batching.max_length,
        seed=config.seed,
    )
    return Stream(data, max_tokens, config.seed, config.training.accumulate, segmentation, ranks)


def _validator(config: Config, data: Batches, tokenizer: Tokenizer, state: TrainState) -> Validator:
    return Validator(
        data,
        tokenizer,
        state.precision,
        state.max_tokens,
        config.decoding,
        sentences=config.training.validation_sentences,
        shown=config.training.sample_translations,
        language=config.data.target_language,
    )


def _announce(config: Config, state: TrainState, ranks: Ranks, *, resumed: bool) -> None:
    parameters = sum(parameter.numel() for parameter in state.model.parameters())
    device = state.model.output_weight.device
    on = f"{ranks.count} ranks of {device}" if ranks.count > 1 else f"{device}"
    say(f"train: {config.model.name}, {parameters:,} parameters, {state.precision} on {on}")
    if config.batching.max_tokens == "auto":
        say(f"train: batches of {state.max_tokens:,} tokens")
    if resumed:
        say(f"train: resuming after step {state.step:,}")
