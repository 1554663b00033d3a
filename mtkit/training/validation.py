"""The quality of a model during training: its loss and scores on the validation set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import torch

from mtkit.batching.plan import plan_epoch
from mtkit.config.settings import Config
from mtkit.corpus.spread import spread
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.limits import LimitedLines, limit_lengths
from mtkit.decoding.text.line import Line
from mtkit.errors import MtkitError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.report import fitted, say
from mtkit.scoring.metrics import MAIN_METRICS, get_signatures, score
from mtkit.scoring.writing import Writing
from mtkit.signals import StopSignals
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.data import load_batch
from mtkit.training.loss import TrainingLoss
from mtkit.training.process_group import ProcessGroup
from mtkit.training.setup import RunInputs, TrainingRun
from mtkit.training.state import TrainState, Validation

SHOWN_TRANSLATIONS = 2
"""Number of translations that are shown at some validations."""
POLL_SECONDS = 0.1
"""How often to look for stop signals while sentences are translated."""
NO_SIGNALS = StopSignals()
"""Signals of which none is received."""


_Item = TypeVar("_Item")
"""The result for a batch or a line, which is JSON."""
_Line = TypeVar("_Line")
"""A line of the validation set, or its target tag."""


class StoppedValidation(MtkitError):  # noqa: N818 - not an error
    """A process received a stop signal before its part of a validation was done."""


def validate(run: TrainingRun, state: TrainState, stop: StopSignals = NO_SIGNALS) -> Validation:
    """Return the loss on the validation set, and BLEU and chrF of its translation.

    The processes share the work. Each returns the result that a single process would compute.

    Raises:
        StoppedValidation: in all processes, if one of them received a signal of `stop`.
    """
    loss = validation_loss(run, state, stop)
    scores = _scores(run, state, stop) if run.config.training.validation_sentences else ()
    return Validation.of(state.progress.step, loss, *scores)


@contextmanager
def _evaluating(model: EncoderDecoder) -> Iterator[None]:
    """Turn off dropout and gradients in the block."""
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train()


def validation_signatures(inputs: RunInputs) -> dict[str, str]:
    """Return the sacreBLEU signatures of BLEU and chrF in a run's validations."""
    references = scored_lines(inputs, inputs.data.valid_target)
    return get_signatures(inputs.config.data.target_language, references)


def _gather(group: ProcessGroup, part: list[_Item] | None) -> list[list[_Item]]:
    """Return the parts of all processes; None is the part of a process that was stopped."""
    parts = group.gather(part)
    if None in parts:
        raise StoppedValidation("the validation was stopped")
    return parts


def validation_loss(run: TrainingRun, state: TrainState, stop: StopSignals = NO_SIGNALS) -> float:
    """Return the loss on the validation set, in nats per target token; as in `validate`."""
    with _evaluating(state.model):
        return _loss(run, state, stop)


def _loss(run: TrainingRun, state: TrainState, stop: StopSignals) -> float:
    store, group = run.inputs.data.valid, run.group
    max_tokens = run.config.batching.max_tokens
    plan = plan_epoch(store.lengths, max_tokens=max_tokens, seed=0, epoch=0)
    losses: list[tuple[float, int]] = []
    loss_of = TrainingLoss(state.model, smoothing=0.0).eval()
    for rows in plan[group.rank :: group.size]:
        if stop.received:
            break
        batch = load_batch(store, rows).to(state.model.device)
        with state.autocast():
            loss = loss_of(batch)
        losses.append((loss.nll.item(), batch.target_tokens))
    parts = _gather(group, None if stop.received else losses)
    batches = list(chain.from_iterable(parts))
    # An exact sum does not depend on how the batches are divided among the processes.
    total = math.fsum(nll for nll, _ in batches)
    return total / sum(tokens for _, tokens in batches)


def scored_lines(inputs: RunInputs, lines: Sequence[_Line]) -> list[_Line]:
    """Return as many lines as a validation translates, spread over all."""
    return spread(lines, inputs.config.training.validation_sentences)


def validation_lines(inputs: RunInputs) -> list[Line]:
    """Return the lines of the validation set that a validation translates, with their tags."""
    sources = scored_lines(inputs, inputs.data.valid_source)
    tags = scored_lines(inputs, inputs.data.valid_tags)
    return [Line(source, tag=tag) for source, tag in zip(sources, tags, strict=True)]


def translate_greedily(
    run: TrainingRun,
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    lines: Sequence[Line],
    references: Sequence[str],
    stop: StopSignals = NO_SIGNALS,
) -> list[str]:
    """Return a model's greedy translation of each line, cut as in `limit_lengths`.

    The processes of the run share the work, and each returns all translations.

    Raises:
        StoppedValidation: in all processes, if one of them received a signal of `stop`.
    """
    settings = run.config.decoding.model_copy(update={"beam": 1})
    # Early in training most translations have loops, so second searches would take too long.
    request = Request(settings, search_again=False)
    sources = [line.text for line in lines]
    groups = limit_lengths(sources, references, tokenizer, request)
    rank, size = run.group.rank, run.group.size
    share = [replace(group, rows=group.rows[rank::size]) for group in groups]
    engine = PyTorchEngine(model)
    with _evaluating(model), closing(Translator(engine, tokenizer, request)) as translator:
        translations = _translate(translator, lines, share, stop)
    hypotheses = [""] * len(lines)
    for row, text in chain.from_iterable(_gather(run.group, translations)):
        hypotheses[row] = text
    return hypotheses


def _scores(run: TrainingRun, state: TrainState, stop: StopSignals) -> tuple[float | None, float]:
    """Return BLEU and chrF of greedy translations; no BLEU if most references are too short."""
    inputs = run.inputs
    lines = validation_lines(inputs)
    references = scored_lines(inputs, inputs.data.valid_target)
    hypotheses = translate_greedily(run, state.model, inputs.tokenizer, lines, references, stop)
    if _shows_samples(run, state):
        for index in range(min(SHOWN_TRANSLATIONS, len(lines))):
            say(fitted(f"  source      {lines[index].text}"))
            say(fitted(f"  hypothesis  {hypotheses[index]}"))
            say(fitted(f"  reference   {references[index]}"))
    return score_validation(run.config, hypotheses, references)


def score_validation(
    config: Config, hypotheses: Sequence[str], references: Sequence[str]
) -> tuple[float | None, float]:
    """Return BLEU and chrF of the validation set; no BLEU if most references are too short."""
    language = config.data.target_language
    scores = score(hypotheses, references, language=language, keys=MAIN_METRICS)
    suits_bleu = Writing.of(language, references).suits_bleu(references)
    return scores["bleu"].value if suits_bleu else None, scores["chrf"].value


def _shows_samples(run: TrainingRun, state: TrainState) -> bool:
    """Return whether this is the first, the middle or the last validation of the planned steps."""
    every = run.config.training.validate_every
    number = math.ceil(state.progress.step / every)
    last = math.ceil(run.total_steps / every)
    return number in (1, (last + 1) // 2) or number >= last


def _translate(
    translator: Translator,
    lines: Sequence[Line],
    groups: Sequence[LimitedLines],
    stop: StopSignals,
) -> list[tuple[int, str]] | None:
    """Return each row of the groups with its best translation; None if a stop signal arrives."""
    futures = [
        translator.submit([lines[row] for row in group.rows], group.request) for group in groups
    ]
    try:
        while wait(futures, POLL_SECONDS).not_done:
            if stop.received:
                return None
        rows = chain.from_iterable(group.rows for group in groups)
        found = chain.from_iterable(future.result() for future in futures)
        return [(row, translation.text) for row, translation in zip(rows, found, strict=True)]
    finally:
        for future in futures:
            future.cancel()  # ends the search, for which the translator would wait
