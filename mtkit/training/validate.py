"""Weights of a run: how good they are, which the finished model gets, and the files of a model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from mtkit.artifacts.runs import WEIGHTS
from mtkit.artifacts.stage import Stage
from mtkit.batching.plan import plan_epoch
from mtkit.decoding.api import Translator
from mtkit.decoding.engine import Request
from mtkit.decoding.pytorch import PyTorchEngine
from mtkit.errors import MtkitError
from mtkit.models.folder import save_model_config
from mtkit.models.weights import assign_weights, get_weights, save_weights
from mtkit.report import say, warn
from mtkit.scoring.metrics import corpus_bleu, corpus_chrf, get_signatures
from mtkit.training.checkpoints import DamagedCheckpoint
from mtkit.training.data import load_batch
from mtkit.training.loss import Objective
from mtkit.training.setup import Job, card_of
from mtkit.training.state import TrainState, Validation, rank


def validate(job: Job, state: TrainState) -> Validation:
    """The loss on the validation pairs, and scores of their decoded sources.

    Each rank takes its share of both, and all return the same: what a single one would find.
    """
    state.model.eval()
    try:
        with torch.inference_mode():
            loss = _loss(job, state)
            scores = _scores(job, state) if job.config.training.validation_sentences else ()
    finally:
        state.model.train()
    return Validation(state.step, loss, math.exp(min(loss, 700.0)), *scores)


def _loss(job: Job, state: TrainState) -> float:
    """Nats per target token."""
    device, store, group = state.model.device, job.data.valid, job.group
    plan = plan_epoch(store.lengths, max_tokens=state.max_tokens, seed=0, epoch=0)
    own: list[tuple[float, int]] = []
    objective = Objective(state.model, smoothing=0.0).eval()
    for rows in plan[group.rank :: group.size]:
        batch = load_batch(store, rows).to(device)
        with state.autocast():
            loss = objective(batch.source, batch.target_input, batch.target_output)
        own.append((loss.nll.item(), batch.target_tokens))
    nll, tokens = zip(*(batch for of_rank in group.gather(own) for batch in of_rank), strict=True)
    return math.fsum(nll) / math.fsum(tokens)


def _scores(job: Job, state: TrainState) -> tuple[float, float]:
    """BLEU and chrF, greedy for little cost; as long as twice the longest sentence."""
    data, training, decoding = job.data, job.config.training, job.config.decoding
    sources = data.valid_source[: training.validation_sentences]
    references = data.valid_target[: training.validation_sentences]
    longest = min(decoding.max_length, 2 * int(data.valid.lengths.max()))
    least = min(decoding.min_length, longest)
    changes = {"beam": 1, "max_length": longest, "min_length": least}
    settings = decoding.model_copy(update=changes)
    index, count = job.group.rank, job.group.size
    translator = Translator(PyTorchEngine(state.model), job.tokenizer, Request(settings))
    with closing(translator):
        translations = translator.translate(sources[index::count])
    hypotheses = [""] * len(sources)
    for place, own in enumerate(job.group.gather(translations)):
        hypotheses[place::count] = own
    texts = list(zip(sources, hypotheses, references, strict=True))
    for source, hypothesis, reference in texts[: training.sample_translations]:
        say(f"  source      {source}")
        say(f"  hypothesis  {hypothesis}")
        say(f"  reference   {reference}")
    bleu = corpus_bleu(hypotheses, references, job.config.data.target_language)
    return bleu, corpus_chrf(hypotheses, references)


def write_model(job: Job, state: TrainState, stage: Stage) -> None:
    """Writes the best weights of the run, with the tokenizer and all that decoding needs."""
    kept = _best_weights(job, state)
    if not math.isfinite(kept.validation.loss):
        raise MtkitError(
            f"training diverged: validation loss {kept.validation.loss:g} of the {kept.name}: no "
            "model is made of that; train with a lower learning rate in another folder (--run)"
        )
    if not job.group.is_main:
        return
    report = {
        "weights": kept.name,
        "validation": asdict(kept.validation),
        "signatures": get_signatures(job.config.data.target_language),
        "averaged_steps": kept.steps,
        "steps": state.step,
        "epochs": state.position.epoch,
        "parameters": sum(weight.numel() for weight in kept.weights.values()),
        "precision": state.precision,
        "training_seconds": round(state.seconds, 1),
    }
    with stage.write() as draft:
        draft.report.update(report)
        save_model_config(draft.folder, card_of(job.config, job.tokenizer), job.tokenizer)
        save_weights(kept.weights, draft.folder / WEIGHTS)


@dataclass(frozen=True)
class Candidate:
    """Weights that the finished model may get."""

    name: str
    weights: dict[str, Tensor]
    validation: Validation
    steps: list[int]
    """Steps of the checkpoints that the weights are from."""


def _best_weights(job: Job, state: TrainState) -> Candidate:
    """The best checkpoint, or the mean of the best few where validation says that it is better.

    That mean stays in the model, which has nothing more to learn.
    """
    metric = job.config.training.best_by
    best = list(islice(_validated(job, state), job.config.training.average))
    if not best:  # all are damaged, or of an end that was further away
        validation = validate(job, state)
        return Candidate("last weights", get_weights(state.model), validation, [state.step])
    kept, few = best[0], [candidate.validation.step for candidate in best]
    if len(few) == 1:
        return kept
    mean = _mean([candidate.weights for candidate in best])
    del best  # but for `kept`, they would be held in memory while the mean is validated
    assign_weights(state.model, mean)
    validation = replace(validate(job, state), step=max(few))
    rival = Candidate(f"mean of the best {len(few)} checkpoints", mean, validation, few)
    scores = [getattr(candidate.validation, metric) for candidate in (rival, kept)]
    say(f"{rival.name}: valid {metric} {scores[0]:.3f}, {kept.name} {scores[1]:.3f}")
    return min(kept, rival, key=lambda found: found.validation.key(metric))


def _validated(job: Job, state: TrainState) -> Iterator[Candidate]:
    """Each checkpoint that was validated, the best first; damaged ones are passed over."""
    there = set(job.checkpoints.steps())
    for validation in rank(state.validations, job.config.training.best_by):
        if (step := validation.step) in there:
            try:
                weights = job.checkpoints.weights(step)
            except DamagedCheckpoint as damage:
                warn(f"{damage}: passed over")
            else:
                yield Candidate("best checkpoint", weights, validation, [step])


def _mean(all_weights: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each parameter."""
    return {
        name: torch.stack([weights[name] for weights in all_weights]).mean(dim=0)
        for name in all_weights[0]
    }
