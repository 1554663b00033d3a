"""How good the model is now: loss on the validation pairs, scores of their decoded sources."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mtkit.batching.plan import plan_epoch
from mtkit.decoding.contract import Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.translator import Translator
from mtkit.models.weights import assign_weights, copied_weights
from mtkit.report import say
from mtkit.scoring.metrics import corpus_bleu, corpus_chrf
from mtkit.training.data.updates import load_batch
from mtkit.training.job import Job
from mtkit.training.objective.loss import projected_loss
from mtkit.training.state import TrainState, Validation


def validate(job: Job, state: TrainState, weights: dict[str, Tensor], step: int) -> Validation:
    """Borrows the model for `weights`, which may be its own, and gives it back as it was."""
    model, own = state.model, copied_weights(state.model)
    assign_weights(model, weights)
    model.eval()
    try:
        with torch.inference_mode():
            loss = _loss(job, state)
            scores = _scores(job, state) if job.config.training.validation_sentences else ()
    finally:
        model.train()
        assign_weights(model, own)
    return Validation(step, loss, math.exp(min(loss, 700.0)), *scores)


def _loss(job: Job, state: TrainState) -> float:
    """Nats per target token."""
    device, store, nll, tokens = state.model.output_weight.device, job.data.valid, 0.0, 0
    for rows in plan_epoch(store.lengths, max_tokens=state.max_tokens, seed=0, epoch=0):
        batch = load_batch(store, rows).to(device)
        with state.autocast():
            hidden = state.model(batch.source, batch.source_mask, batch.target_input)
            hidden, weight = state.model.output_factors(hidden)
            loss = projected_loss(hidden.unsqueeze(0), weight, batch.target_output, 0.0)
        nll, tokens = nll + loss.nll.item(), tokens + batch.target_tokens
    return nll / tokens


def _scores(job: Job, state: TrainState) -> tuple[float, float]:
    """BLEU and chrF, greedy for little cost; as long as twice the longest reference."""
    data, training, decoding = job.data, job.config.training, job.config.decoding
    sources = data.valid_source[: training.validation_sentences]
    references = data.valid_target[: training.validation_sentences]
    longest = min(decoding.max_length, 2 * int(data.valid.lengths[:, 1].max()))
    settings = decoding.model_copy(update={"beam": 1, "max_length": longest})
    translator = Translator(PyTorchEngine(state.model), job.tokenizer, Request(settings))
    hypotheses = translator.translate(sources)
    texts = list(zip(sources, hypotheses, references, strict=True))
    for source, hypothesis, reference in texts[: training.sample_translations]:
        say(f"  source      {source}")
        say(f"  hypothesis  {hypothesis}")
        say(f"  reference   {reference}")
    bleu = corpus_bleu(hypotheses, references, job.config.data.target_language)
    return bleu, corpus_chrf(hypotheses, references)
