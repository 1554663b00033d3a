"""One update, the batches it is made from, and the generator that training loops over."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import torch

from mtkit.batching import Batches, plan_epoch
from mtkit.config import Config
from mtkit.errors import MtkitError
from mtkit.models import TranslationModel
from mtkit.terms import Batch
from mtkit.training.loader import load_batch, prefetch
from mtkit.training.loss import projected_cross_entropy
from mtkit.training.schedule import learning_rate
from mtkit.training.state import TrainState

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Update:
    """The micro-batches of one update, and where in the data the run stands after it."""

    batches: tuple[Batch, ...]
    epoch: int
    offset: int


@dataclass(frozen=True)
class StepReport:
    """Sums over the target tokens of one update, and how large a step it took."""

    smoothed: float
    nll: float
    tokens: int
    gradient_norm: float
    learning_rate: float


def train_steps(
    state: TrainState, data: Batches, config: Config, total_steps: int
) -> Generator[StepReport]:
    """Updates `state` without end, from where it stands; whoever loops over it decides to stop."""
    training, device = config.training, state.model.output_weight.device
    for update in prefetch(updates(data, config, state.epoch, state.offset)):
        rate = learning_rate(
            state.step + 1,
            schedule=training.schedule,
            warmup=training.warmup,
            d_model=config.model.d_model,
            total_steps=total_steps,
            losses=[(validation.step, validation.loss) for validation in state.validations],
        )
        report = train_step(state, [b.to(device) for b in update.batches], config, rate)
        state.epoch, state.offset = update.epoch, update.offset
        yield report


def train_step(
    state: TrainState, batches: Sequence[Batch], config: Config, rate: float
) -> StepReport:
    """One update of `state.model`: exact by tokens, however they are spread over micro-batches.

    Raises MtkitError on a loss or gradient that is not finite.
    """
    settings = config.training
    state.step += 1
    tokens = sum(batch.target_tokens for batch in batches)
    smoothed = nll = 0.0
    for index, batch in enumerate(batches):
        torch.manual_seed(seed_of(config.seed, state.step, index))
        with torch.autocast(
            batch.source.device.type, DTYPES[state.precision], state.precision != "float32"
        ):
            hidden = state.model(batch.source, batch.source_mask, batch.target_input)
            loss = projected_cross_entropy(
                hidden, state.model.output_weight, batch.target_output, settings.label_smoothing
            )
        state.scaler.scale(loss.smoothed / tokens).backward()
        smoothed, nll = smoothed + loss.smoothed.item(), nll + loss.nll.item()
    state.scaler.unscale_(state.optimizer)
    norm = torch.nn.utils.clip_grad_norm_(
        state.model.parameters(), settings.clip_norm or float("inf")
    ).item()
    _check_finite(state, smoothed, norm, rate)
    for group in state.optimizer.param_groups:
        group["lr"] = rate
    state.scaler.step(state.optimizer)
    state.scaler.update()
    state.optimizer.zero_grad(set_to_none=True)
    if state.average is not None and settings.ema is not None:
        move_average(state.average, state.model, settings.ema, state.step)
    return StepReport(smoothed, nll, tokens, norm, rate)


def updates(data: Batches, config: Config, epoch: int, offset: int) -> Iterator[Update]:
    """Every update from `offset` updates into `epoch` on, without end; starts there at once."""
    size = config.training.accumulate
    while True:
        plan = plan_epoch(
            data.train.lengths,
            max_tokens=config.batching.max_tokens,
            seed=config.seed,
            epoch=epoch,
            weights=data.weights,
        )
        count = -(-len(plan) // size)
        for done in range(offset, count):
            rows = plan[done * size : (done + 1) * size]
            batches = tuple(load_batch(data.train, row) for row in rows)
            yield Update(batches, *((epoch, done + 1) if done + 1 < count else (epoch + 1, 0)))
        epoch, offset = epoch + 1, 0


def seed_of(seed: int, step: int, index: int) -> int:
    """What dropout of a micro-batch is drawn from; unrelated between neighbours."""
    digest = hashlib.sha256(f"{seed}/{step}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


@torch.no_grad()
def move_average(
    average: dict[str, torch.Tensor], model: TranslationModel, decay: float, step: int
) -> None:
    """average ← d · average + (1 - d) · weights, with d = min(decay, (1 + step) / (10 + step))."""
    share = 1 - min(decay, (1 + step) / (10 + step))
    for name, parameter in model.named_parameters():
        average[name].lerp_(parameter.to(average[name].device), share)


def _check_finite(state: TrainState, loss: float, norm: float, rate: float) -> None:
    overflow_is_normal = state.scaler.is_enabled()  # fp16: the scaler skips that update itself
    if loss - loss != 0 or (norm - norm != 0 and not overflow_is_normal):
        raise MtkitError(
            f"training diverged at step {state.step}: loss {loss:.3g}, gradient norm {norm:.3g}, "
            f"learning rate {rate:.3g}: lower training.schedule.peak or raise training.warmup"
        )
