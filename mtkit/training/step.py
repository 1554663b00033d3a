"""One update, and the generator of them that training loops over."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch

from mtkit.batching.build import Batches
from mtkit.config.settings import Config
from mtkit.errors import MtkitError, is_out_of_memory
from mtkit.models.base import TranslationModel
from mtkit.terms import Batch
from mtkit.training.data.loader import prefetch
from mtkit.training.data.segmentation import Segmentation, as_stored
from mtkit.training.data.updates import NOTHING, micro_batch_seed, updates
from mtkit.training.optimizer.schedule import learning_rate
from mtkit.training.run.distributed import ALONE, Ranks
from mtkit.training.run.memory import GIVE_BACK_EVERY, give_back, halves
from mtkit.training.state import TrainState


@dataclass(frozen=True)
class StepReport:
    """Sums over the target tokens of one update on all ranks, and how large a step it took."""

    smoothed: float
    nll: float
    tokens: int
    gradient_norm: float
    learning_rate: float
    skipped: bool
    """Loss or gradient were not finite, and the weights are as they were."""


class Diverged(MtkitError):  # noqa: N818 - it says what happened
    """Too many updates in a row had to be skipped."""


def train_steps(
    state: TrainState,
    data: Batches,
    config: Config,
    total_steps: int,
    segmentation: Segmentation = as_stored,
    ranks: Ranks = ALONE,
) -> Generator[StepReport]:
    """Updates `state` without end, from where it stands; whoever loops over it decides to stop.

    Raises Diverged, and MtkitError where memory does not suffice; `state` is then that after the
    last update.
    """
    training, device = config.training, state.model.output_weight.device
    for update in prefetch(updates(state, data, config, segmentation, ranks)):
        rate = state.rate_scale * learning_rate(
            state.step + 1,
            schedule=training.schedule,
            warmup=training.warmup,
            d_model=config.model.d_model,
            total_steps=total_steps,
            losses=[(validation.step, validation.loss) for validation in state.validations],
        )
        report = train_step(state, [b.to(device) for b in update.batches], config, rate, ranks)
        state.epoch, state.portion, state.offset = update.epoch, update.portion, update.offset
        if state.skipped_in_a_row >= training.max_skipped:
            raise Diverged(
                f"training diverged at step {state.step} (epoch {state.epoch}): loss "
                f"{report.nll / report.tokens:.3g}, gradient norm {report.gradient_norm:.3g}, "
                f"learning rate {rate:.3g}; {training.max_skipped} updates in a row skipped"
            )
        yield report


def train_step(
    state: TrainState,
    batches: Sequence[Batch],
    config: Config,
    rate: float,
    ranks: Ranks = ALONE,
) -> StepReport:
    """One update of `state`: exact by tokens, however they are spread over micro-batches and ranks.

    Skipped where loss or gradient are not finite. Raises MtkitError where memory does not suffice
    for half a batch either; then, as after any other error, `state` is as it was.
    """
    tokens = int(ranks.sum(sum(batch.target_tokens for batch in batches))[0])
    smoothed, nll = _backward(state, batches, config, tokens, ranks)
    state.scaler.unscale_(state.optimizer)
    norm = torch.nn.utils.clip_grad_norm_(
        state.model.parameters(), config.training.clip_norm or float("inf")
    ).item()
    overflow_is_normal = state.scaler.is_enabled()  # fp16: the scaler skips that update itself
    healthy = math.isfinite(smoothed) and (math.isfinite(norm) or overflow_is_normal)
    if healthy:
        for group in state.optimizer.param_groups:
            group["lr"] = rate
        with state.autocast():  # Muon multiplies matrices as well
            state.scaler.step(state.optimizer)
        state.skipped_in_a_row = 0
    else:
        state.skipped += 1
        state.skipped_in_a_row += 1
    state.scaler.update()
    state.optimizer.zero_grad(set_to_none=True)
    state.step += 1
    if state.step % GIVE_BACK_EVERY == 0:
        give_back()
    if state.average is not None and config.training.ema is not None:
        move_average(state.average, state.model, config.training.ema, state.step)
    return StepReport(smoothed, nll, tokens, norm, rate, skipped=not healthy)


def _backward(
    state: TrainState, batches: Sequence[Batch], config: Config, tokens: int, ranks: Ranks
) -> tuple[float, float]:
    """Leaves the gradient of the mean over `tokens`; a batch too large for memory is split once."""
    refused = None
    try:
        return gradients(state, batches, config, tokens, ranks)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error) or ranks.count > 1:
            raise
        refused = error.with_traceback(None)  # whose frames would hold on to the memory
    state.optimizer.zero_grad(set_to_none=True)
    try:
        pieces = [half for batch in batches for half in halves(batch)]
        return gradients(state, pieces, config, tokens, ranks)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise MtkitError(
            f"out of memory at step {state.step + 1}, and with its batch split in two: lower "
            "batching.max_tokens"
        ) from refused


def gradients(
    state: TrainState, batches: Sequence[Batch], config: Config, tokens: int, ranks: Ranks
) -> tuple[float, float]:
    """Adds the gradients of all micro-batches up; returns their smoothed loss and nll, as sums."""
    total = torch.zeros(2, dtype=torch.float64)
    for index, batch in enumerate(batches):
        torch.manual_seed(micro_batch_seed(config, state.step + 1, index, ranks))
        is_last = index + 1 == len(batches)
        with nullcontext() if is_last else ranks.accumulating(state.objective):
            with state.autocast():
                loss = state.objective(batch.source, batch.target_input, batch.target_output)
            # Ranks exchange means of their gradients, and the sum is wanted.
            state.scaler.scale(loss.smoothed * (ranks.count / tokens)).backward()
        total += torch.stack([loss.smoothed.detach(), loss.nll]).to(total)
    smoothed, nll = ranks.sum(*total.tolist())
    return smoothed, nll


def settle(state: TrainState, config: Config, ranks: Ranks) -> None:
    """Lets torch decide which gradients travel together, before the first update that counts.

    It does so after a first backward pass, and sums come out in another order then: a run that is
    resumed must not pass that point at another update than one that is not.
    """
    for _ in range(2):
        gradients(state, [NOTHING.to(state.model.output_weight.device)], config, 1, ranks)
    state.optimizer.zero_grad(set_to_none=True)


@torch.no_grad()
def move_average(
    average: dict[str, torch.Tensor], model: TranslationModel, decay: float, step: int
) -> None:
    """average ← d · average + (1 - d) · weights, with d = min(decay, (1 + step) / (10 + step))."""
    share = 1 - min(decay, (1 + step) / (10 + step))
    for name, parameter in model.named_parameters():
        average[name].lerp_(parameter.to(average[name].device), share)
