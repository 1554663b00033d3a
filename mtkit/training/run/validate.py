"""How good the model is now: loss on the validation pairs, scores of their decoded sources."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.batching.build import Batches
from mtkit.batching.plan import plan_epoch
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.contract import Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.translator import Translator
from mtkit.models.encoder_decoder import TranslationModel
from mtkit.models.weights import assign_weights, copied_weights
from mtkit.report import say
from mtkit.scoring.metrics import corpus_bleu, corpus_chrf
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.data.loader import load_batch
from mtkit.training.objective.loss import projected_cross_entropy
from mtkit.training.optimizer.precision import autocast
from mtkit.training.run.history import Validation


@dataclass(frozen=True)
class Validator:
    """Everything that validation needs but the weights."""

    data: Batches
    tokenizer: Tokenizer
    precision: str
    max_tokens: int
    """Number of padded tokens in a batch, at most."""
    decoding: DecodingSettings
    sentences: int
    """Number of sentences that are decoded for BLEU and chrF."""
    shown: int
    """Number of translations that are shown."""
    language: str | None
    """The target language, by which text is tokenized for BLEU."""

    def __call__(
        self, model: TranslationModel, weights: dict[str, Tensor], step: int
    ) -> Validation:
        """Borrows the model for `weights`, which may be its own, and gives it back as it was."""
        with _borrowed(model, weights), torch.inference_mode():
            loss = self._loss(model)
            scores = self._scores(model) if self.sentences else (None, None)
        return Validation(step, loss, math.exp(min(loss, 700.0)), *scores)

    def _loss(self, model: TranslationModel) -> float:
        device = model.output_weight.device
        store, nll, tokens = self.data.valid, 0.0, 0
        for rows in plan_epoch(store.lengths, max_tokens=self.max_tokens, seed=0, epoch=0):
            batch = load_batch(store, rows).to(device)
            with autocast(self.precision, device):
                hidden = model(batch.source, batch.source_mask, batch.target_input)
                factors = model.output_factors(hidden)
                loss = projected_cross_entropy(*factors, batch.target_output, 0.0)
            nll, tokens = nll + loss.nll.item(), tokens + batch.target_tokens
        return nll / tokens

    def _scores(self, model: TranslationModel) -> tuple[float, float]:
        """Greedy, so that a validation costs little; as long as twice the longest reference."""
        sources = self.data.valid_source[: self.sentences]
        references = self.data.valid_target[: self.sentences]
        longest = min(self.decoding.max_length, 2 * int(self.data.valid.lengths[:, 1].max()))
        settings = self.decoding.model_copy(update={"beam": 1, "max_length": longest})
        translator = Translator(PyTorchEngine(model), self.tokenizer, Request(settings))
        hypotheses = translator.translate(sources)
        for texts in list(zip(sources, hypotheses, references, strict=True))[: self.shown]:
            for name, text in zip(("source", "hypothesis", "reference"), texts, strict=True):
                say(f"  {name:<10}  {text}")
        bleu = corpus_bleu(hypotheses, references, self.language)
        return bleu, corpus_chrf(hypotheses, references)


@contextmanager
def _borrowed(model: TranslationModel, weights: dict[str, Tensor]) -> Iterator[None]:
    own = copied_weights(model)
    assign_weights(model, weights)
    model.eval()
    try:
        yield
    finally:
        model.train()
        assign_weights(model, own)
